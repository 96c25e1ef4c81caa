package local

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
)

// asked is a job that records whether its queue is locked when its ID is read.
type asked struct {
	job.Base
	queue  *Queue
	locked bool
}

func (*asked) Run(context.Context) {}

func (j *asked) ID() string {
	if j.queue.mu.TryLock() {
		j.queue.mu.Unlock()
	} else {
		j.locked = true
	}
	return "stuck"
}

func TestAStuckJobIsAskedForItsIDWithTheLockOfTheQueue(t *testing.T) {
	q := New(Options{NumWorkers: 1}, nil)
	j := &asked{queue: q}
	require.ErrorIs(t, q.ReportStuck(t.Context(), j, amboy.StuckRun{}), amboy.ErrLeaseLost)
	assert.False(t, j.locked)
}
