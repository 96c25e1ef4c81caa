package suite_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/mongodb/amboy/internal/logtest"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/job"
)

func TestMain(m *testing.M) {
	logtest.Silence()
	job.RegisterDefaultJobs()
	goleak.VerifyTestMain(pgtest.Main{M: m})
}
