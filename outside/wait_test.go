package outside_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
)

func TestAWaiterLearnsOfAnEndInAnotherProcess(t *testing.T) {
	onEach(t, func(f *fixture) {
		other := f.another()
		var waiting sync.WaitGroup
		var told [5]time.Time
		for i := range told {
			id := fmt.Sprint(i)
			f.put(id, `1`)
			waiting.Go(func() {
				if ended, err := other.dispatcher.WaitForEnd(f.ctx, queueName, id); !ended {
					assert.Fail(f, "the wait has ended before the job", "%v", err)
				}
				told[i] = time.Now()
			})
		}
		for _, j := range f.lease(len(told)) {
			require.NoError(f, f.complete(j, `1`))
		}
		completed := time.Now()
		waiting.Wait()
		for _, at := range told {
			assert.Less(f, at.Sub(completed), 20*time.Second) // notifications, not the slow reads
		}
	})
}

// countingDriver counts reads of jobs.
type countingDriver struct {
	driver.Driver
	reads atomic.Int64
}

func (d *countingDriver) Get(ctx context.Context, queue, id string) (*driver.Record, error) {
	d.reads.Add(1)
	return d.Driver.Get(ctx, queue, id)
}

func (d *countingDriver) Find(ctx context.Context, query driver.Query, page driver.PageRequest) (driver.Page, error) {
	d.reads.Add(1)
	return d.Driver.Find(ctx, query, page)
}

func TestWaitersForEndsReadTheStoreOnlyWhenItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counted := &countingDriver{Driver: stores["memory"](t)()}
		open := func() driver.Driver { return counted }
		f, other := newFixture(t, t.Context(), open, noOptions), newFixture(t, t.Context(), open, noOptions)
		const jobs = 100
		var waiting sync.WaitGroup
		for i := range jobs {
			id := fmt.Sprint(i)
			f.put(id, `1`)
			waiting.Go(func() {
				if ended, err := other.dispatcher.WaitForEnd(t.Context(), queueName, id); !ended {
					assert.Fail(t, "the wait has ended before the job", "%v", err)
				}
			})
		}
		time.Sleep(time.Second)
		before := counted.reads.Load()
		time.Sleep(20 * time.Second)
		assert.Equal(t, before, counted.reads.Load())
		last := f.lease(jobs)
		for _, j := range last[:jobs-1] {
			require.NoError(t, f.complete(j, `1`))
		}
		time.Sleep(time.Second)
		began := time.Now()
		require.NoError(t, f.complete(last[jobs-1], `1`))
		waiting.Wait()
		assert.LessOrEqual(t, time.Since(began), 50*time.Millisecond)
		f.close()
		other.close()
		require.NoError(t, counted.Close(t.Context()))
	})
}
