package queue_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

func TestMoreJobsThanWorkersAreClaimedWhileJobsAreShort(t *testing.T) {
	const workers = 4
	for name, test := range map[string]struct {
		costly bool
		lasts  time.Duration
		most   int
	}{
		"short jobs":                             {most: 25 * workers},
		"long jobs":                              {lasts: 100 * time.Millisecond, most: workers},
		"short jobs of a driver that loses some": {costly: true, most: workers},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newSpy(newStore(t))
				store.durable, store.costly = true, test.costly
				takesTime := func(ctx context.Context, call string) error {
					if call == "Claim" {
						time.Sleep(2 * time.Millisecond)
					}
					return ctx.Err()
				}
				store.before.Store(&takesTime)
				var most atomic.Int64
				claimed := func(req driver.ClaimRequest, _ driver.Claimed) {
					most.Store(max(most.Load(), int64(req.Limit)))
				}
				store.claimed.Store(&claimed)
				q := startEngine(t, store, workers)
				defer q.Close(context.Background())
				s := &starts{t: t}
				s.putAll(q, "", 300, test.lasts)
				require.True(t, amboy.Wait(day(t), q))
				assert.Len(t, s.all(), 300, "no job ran twice")
				assert.LessOrEqual(t, most.Load(), int64(test.most))
				assert.Equal(t, test.most > workers, most.Load() > workers)
			})
		})
	}
}

// A worker used to keep its previous jobs while it had no other.
func TestAWorkerKeepsNoJobWhoseEndIsWritten(t *testing.T) {
	store := newSpy(newStore(t))
	store.durable = true
	q := startEngine(t, store, 1)
	defer q.Close(context.Background())
	const jobs = 5
	freed := make(chan struct{}, jobs)
	for _, id := range ids("job", jobs) {
		require.NoError(t, q.Put(t.Context(), newJob(t, id, func(_ context.Context, j *funcJob) {
			runtime.AddCleanup(j, func(int) { freed <- struct{}{} }, 0)
		})))
	}
	require.True(t, amboy.Wait(within(t), q))
	ctx := within(t)
	for range jobs - 1 { // the worker may keep the last one
		for isFreed := false; !isFreed; {
			runtime.GC()
			select {
			case <-freed:
				isFreed = true
			case <-ctx.Done():
				t.Fatal("a job is kept")
			default:
			}
		}
	}
}
