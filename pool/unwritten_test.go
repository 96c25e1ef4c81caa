package pool_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/pool"
)

// slowQueue writes ends in the background: all of them when accepts is closed.
type slowQueue struct {
	*fakeQueue
	accepts chan struct{}
}

func (q slowQueue) CompleteLater(ctx context.Context, _ amboy.Job) (wait func()) {
	return func() {
		select {
		case <-q.accepts:
		case <-ctx.Done():
		}
	}
}

// lasting returns the Run of a job that takes a time.
func lasting(d time.Duration) func(context.Context, *funcJob) {
	return func(context.Context, *funcJob) { time.Sleep(d) }
}

func TestAWorkerBeginsFewJobsWhileTheirEndsAreNotWritten(t *testing.T) {
	for name, test := range map[string]struct {
		lasts  time.Duration
		begins int
	}{
		"short jobs": {lasts: time.Millisecond, begins: 17},
		"long jobs":  {lasts: time.Second, begins: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := slowQueue{newFakeQueue(), make(chan struct{})}
				q.put(100, lasting(test.lasts))
				start(t, pool.NewLocalWorkers(1, q))
				assert.Equal(t, test.begins, q.startsIn(time.Hour))
				close(q.accepts)
				assert.Equal(t, 100-test.begins, q.startsIn(time.Hour))
			})
		})
	}
}

func TestCloseWaitsUntilAllEndsAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := slowQueue{newFakeQueue(), make(chan struct{})}
		q.put(10, doNothing)
		r := pool.NewLocalWorkers(1, q)
		start(t, r)
		assert.Equal(t, 10, q.startsIn(time.Second))
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			r.Close(context.Background())
		}()
		time.Sleep(time.Hour)
		select {
		case <-closed:
			assert.Fail(t, "closed while ends were not written")
		default:
		}
		close(q.accepts)
		<-closed
	})
}
