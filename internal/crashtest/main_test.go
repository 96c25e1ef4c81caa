package crashtest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/mongodb/amboy/internal/logtest"
	"github.com/mongodb/amboy/internal/pgtest"
)

func TestMain(m *testing.M) {
	logtest.Silence()
	goleak.VerifyTestMain(pgtest.Main{M: m})
}
