package job_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/mongodb/amboy/job"
)

func TestMain(m *testing.M) {
	job.RegisterDefaultJobs()
	goleak.VerifyTestMain(m)
}
