package outside_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue/driver"
)

// unreadable is a store that reads no job while failing is true.
type unreadable struct {
	driver.Driver
	failing atomic.Bool
}

var errUnread = errors.New("the store is away")

// Close leaves the store open, which another process uses.
func (s *unreadable) Close(context.Context) error { return nil }

func (s *unreadable) Get(ctx context.Context, queue, id string) (*driver.Record, error) {
	if s.failing.Load() {
		return nil, errUnread
	}
	return s.Driver.Get(ctx, queue, id)
}

// The attempt went on until its lease of an hour ran out.
func TestAnAttemptDidNotEndWithItsTimeToRunAfterTheStoreHadFailed(t *testing.T) {
	for name, failStore := range map[string]func(f *fixture, store *unreadable, j outside.Job){
		"when it was acknowledged": func(f *fixture, store *unreadable, j outside.Job) {
			store.failing.Store(true)
			require.ErrorIs(f, f.complete(j, ""), errUnread)
			store.failing.Store(false)
		},
		"when its time was over": func(_ *fixture, store *unreadable, _ outside.Job) {
			store.failing.Store(true)
			time.Sleep(time.Minute + time.Second)
			store.failing.Store(false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, noOptions, func(f *fixture) {
				store := &unreadable{Driver: f.driver}
				other := newFixture(f.T, f.ctx, func() driver.Driver { return store }, noOptions)
				f.put("a", "1", job.Timeout(time.Minute))
				req := request()
				req.Lease = time.Hour
				jobs, err := other.dispatcher.Lease(f.ctx, req)
				require.NoError(f, err)
				require.Len(f, jobs, 1)
				failStore(other, store, jobs[0])
				time.Sleep(2 * time.Minute)
				f.hasState("a", amboy.StateFailed)
				other.close()
			})
		})
	}
}

// The store failed when the attempt was to be ended. Until that was tried again the worker could still complete it,
// after its time to run.
func TestAWorkerEndedAnAttemptAfterItsTimeToRunBecauseTheStoreHadFailed(t *testing.T) {
	inMemory(t, noOptions, func(f *fixture) {
		store := &unreadable{Driver: f.driver}
		other := newFixture(f.T, f.ctx, func() driver.Driver { return store }, noOptions)
		f.put("a", "1", job.Timeout(time.Minute))
		req := request()
		req.Lease = time.Hour
		jobs, err := other.dispatcher.Lease(f.ctx, req)
		require.NoError(f, err)
		store.failing.Store(true)
		time.Sleep(time.Minute + time.Millisecond)
		store.failing.Store(false)
		var late *amboy.MaxTimeError
		require.ErrorAs(f, other.complete(jobs[0], ""), &late)
		f.hasState("a", amboy.StateFailed)
		other.close()
	})
}
