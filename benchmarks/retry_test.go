package benchmarks

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/registry"
)

// failOnce is a job whose first attempt fails and whose second succeeds.
type failOnce struct {
	job.Base `bson:"job_base" json:"job_base" yaml:"job_base"`
}

const failOnceType = "benchmarks-fail-once"

// succeeding counts the failOnce jobs that have not succeeded yet. It can't be a field of the
// job, because the job is stored between its attempts.
var succeeding sync.WaitGroup

var errFirstAttempt = errors.New("the first attempt fails")

func init() {
	registry.AddJobType(failOnceType, func() amboy.Job { return newFailOnce() })
}

func newFailOnce() *failOnce {
	retryable, maxAttempts := true, 2
	j := &failOnce{}
	j.SetType(amboy.JobType{Name: failOnceType})
	j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: &retryable, MaxAttempts: &maxAttempts})
	return j
}

func (j *failOnce) Run(context.Context) {
	defer j.MarkComplete()
	if j.RetryInfo().CurrentAttempt == 0 {
		j.AddRetryableError(errFirstAttempt)
		return
	}
	succeeding.Done()
}

// BenchmarkRetry measures how many jobs that fail once and are retried pass through the
// serializable queue per second, with 8 workers.
func BenchmarkRetry(b *testing.B) {
	const jobs = 10_000
	var took samples
	for b.Loop() {
		runtime.GC()
		took = append(took, drainRetries(b, jobs))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(took.rate(jobs), "jobs/s")
}

func drainRetries(b *testing.B, jobs int) time.Duration {
	q, err := queue.NewLocalLimitedSizeSerializable(8, 2*jobs)
	require.NoError(b, err)
	start(b, q)
	defer q.Close(b.Context())
	succeeding.Add(jobs)
	made := make([]*failOnce, jobs)
	for i := range made {
		made[i] = newFailOnce()
		made[i].SetID(strconv.Itoa(i))
	}

	begin := time.Now()
	for _, j := range made {
		put(b, q, j)
	}
	succeeding.Wait()
	return time.Since(begin)
}
