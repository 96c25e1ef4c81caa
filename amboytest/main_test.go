package amboytest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/mongodb/amboy/internal/logtest"
)

func TestMain(m *testing.M) {
	logtest.Silence()
	goleak.VerifyTestMain(m)
}
