package queue_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/registry"
)

func TestErrorsOf17MBWereStored(t *testing.T) {
	for name, build := range kinds {
		t.Run(name, func(t *testing.T) {
			q := build(t, 1, 10)
			require.NoError(t, q.Start(t.Context()))
			defer q.Close(context.Background())
			put(t, q, newJob(t, "large", func(_ context.Context, j *funcJob) {
				j.AddError(errors.New(strings.Repeat("x", 17<<20)))
				j.AddError(errors.New("the last"))
			}))
			drain(t, q)
			status := infoOf(t, q, "large").Status
			assert.LessOrEqual(t, len(strings.Join(status.Errors, "")), amboy.MaxErrorBytes)
			assert.Equal(t, "the last", status.Errors[len(status.Errors)-1])
			assert.Equal(t, amboy.StateFailed, infoOf(t, q, "large").State)
		})
	}
}

var leaveLarge = job.DefineResult("leave-large", 1, func(_ context.Context, size int) (string, error) {
	return strings.Repeat("x", size), nil
}, job.Defaults[int]{MaxAttempts: 3})

func TestAResultOfAnySizeWasStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := startEngine(t, newStore(t), 1)
		defer q.Close(context.Background())
		for id, size := range map[string]int{"large": 1 << 20, "small": 1<<20 - 100} {
			_, err := leaveLarge.Put(t.Context(), q, size, job.ID(id))
			require.NoError(t, err)
		}
		require.True(t, amboy.Wait(t.Context(), q))
		assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "small").State)
		large := infoOf(t, q, "large")
		assert.Equal(t, amboy.StateFailed, large.State)
		assert.Zero(t, large.Retry.CurrentAttempt, "the job is not retried")
		require.Len(t, large.Status.Errors, 1)
		assert.Regexp(t, `^the result of job "large" has 10485\d\d bytes; at most 1048576 are stored$`, large.Status.Errors[0])
	})
}

// growing is a job that is small when it is put, and large after it ran.
type growing struct {
	job.Base `bson:"job_base" json:"job_base"`
	Content  string `bson:"content" json:"content"`
}

var grown = make(chan struct{}, 100)

func (j *growing) Run(context.Context) {
	grown <- struct{}{}
	j.Content = strings.Repeat("x", 17<<20)
}

func init() {
	registry.AddJobType("growing", func() amboy.Job {
		j := &growing{}
		j.JobType = amboy.JobType{Name: "growing", Version: 1}
		return j
	})
}

func TestAJobThatGrewBeyond16MBRanForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := startMongoDB(t, mongotest.Open(t, mongotest.InMemory()), 1, func(o *queue.MongoDBOptions) {
			o.LockTimeout = 2 * time.Second
		})
		j := &growing{}
		j.JobType = amboy.JobType{Name: "growing", Version: 1}
		j.SetID("grows")
		put(t, q, j)
		pass(time.Minute)
		assert.Len(t, grown, 1, "runs")
		info := infoOf(t, q, "grows")
		assert.Equal(t, amboy.StateFailed, info.State)
		require.Len(t, info.Status.Errors, 1)
		assert.Contains(t, info.Status.Errors[0], "must be at most 16777216 bytes")
		q.Close(context.Background())
	})
}
