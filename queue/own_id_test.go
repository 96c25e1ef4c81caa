package queue_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/registry"
)

// restart is a job whose type derives the ID from its fields.
type restart struct {
	Host     string `bson:"host" json:"host"`
	job.Base `bson:"job_base" json:"job_base"`
}

func init() {
	registry.AddJobType("restart", func() amboy.Job {
		return &restart{Base: job.Base{JobType: amboy.JobType{Name: "restart"}}}
	})
}

func (j *restart) ID() string { return "restart " + j.Host }

func (j *restart) Run(context.Context) {
	defer j.MarkComplete()
	if j.RetryInfo().CurrentAttempt == 0 {
		j.AddRetryableError(errors.New("no route to host"))
	}
}

// The base ID of its attempts was that of job.Base, which is empty, so that Get did not find it and
// WaitJob returned at once.
func TestARetryableJobWhoseTypeDerivesItsIDWasNotFound(t *testing.T) {
	onEach(t, 1, 10, func(t *testing.T, q amboy.Queue) {
		j := &restart{Host: "web-1", Base: job.Base{JobType: amboy.JobType{Name: "restart"}}}
		j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true)})
		put(t, q, j)
		assert.True(t, amboy.WaitJob(within(t), j, q))
		ended := jobOf(t, q, "restart web-1")
		assert.Equal(t, 1, ended.RetryInfo().CurrentAttempt)
		require.NoError(t, ended.Error())
		if r, ok := q.(amboy.RetryableQueue); ok {
			all, err := r.GetAllAttempts(t.Context(), "restart web-1")
			require.NoError(t, err)
			assert.Len(t, all, 2)
		}
	})
}

// A local queue did not find the job when it ended. In a store it was not found by its ID afterwards.
func TestAJobThatChangedItsIDRanForEver(t *testing.T) {
	for name, attempts := range map[string]int{"not retryable": 0, "retryable": 2} {
		t.Run(name, func(t *testing.T) {
			onEach(t, 1, 10, func(t *testing.T, q amboy.Queue) {
				j := newJob(t, "old", func(_ context.Context, j *funcJob) {
					j.SetID("new")
					j.AddRetryableError(errors.New("no route to host"))
				})
				if attempts > 0 {
					retryable(j, attempts)
				}
				put(t, q, j)
				drain(t, q)
				assert.True(t, jobOf(t, q, "old").Status().Completed)
				put(t, q, noop(t, "next"))
				drain(t, q)
			})
		})
	}
}
