package cli_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/mongodb/amboy/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main{M: m}) }
