package drivertest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// acting returns a call of Act on the latest attempt of a job. Its error is errNothing if
// the job was skipped or does not exist.
func (f *fixture) acting(kind driver.ActionKind, id string) func() error {
	return func() error {
		acted, err := f.driver.Act(f.ctx, driver.ActRequest{
			Query:  driver.Query{Queues: []string{f.queue}, ID: id, Latest: true},
			Action: driver.Action{Kind: kind},
			Limit:  10,
		})
		return some(acted.Done, err)
	}
}

func (f *fixture) completing(r *driver.Record, state amboy.JobState) func() error {
	return func() error {
		c := driver.Completion{Lease: driver.LeaseOf(r), Record: ended(r, state)}
		return every(f.driver.Complete(f.ctx, []driver.Completion{c}))
	}
}

func isNothing(err error) bool { return errors.Is(err, errNothing) }

func raceUniqueKey(f *fixture) {
	n := 0
	for round := range rounds {
		n++
		var racing []func() error
		for i := range 4 {
			r := f.record(spec{id: fmt.Sprintf("%d-%d", round, i), uniqueKey: fmt.Sprint(round)})
			racing = append(racing, func() error { return every(f.driver.Insert(f.ctx, []*driver.Record{r})) })
		}
		f.one(f.together(racing...), amboy.IsDuplicateJobError)
	}
	f.consistent()
	assert.Len(f, f.list(), n)
}

func raceMaxRunning(f *fixture) {
	const most = 3
	f.fill(f.queue, 0, 9)
	f.maxRunning(most)
	for range rounds {
		var claimed atomic.Int64
		errs := f.together(four(func() error {
			records, err := f.claimAs(owner, 2)
			claimed.Add(int64(len(records)))
			return err
		})...)
		require.NoError(f, errors.Join(errs...))
		require.EqualValues(f, most, claimed.Load())
		require.Equal(f, most, f.recoverEnded())
	}
}

func raceClaimOrCancel(f *fixture) {
	for round := range rounds {
		id := fmt.Sprint(round)
		f.insert(spec{id: id})
		var claimed []*driver.Record
		errs := f.together(
			func() (err error) {
				claimed, err = f.claimAs(owner, 1)
				return err
			},
			f.acting(driver.Cancel, id),
		)
		require.NoError(f, errors.Join(errs...))
		f.consistent()
		if len(claimed) == 0 {
			f.hasState(id, amboy.StateCanceled)
			continue
		}
		require.Equal(f, []driver.Lease{driver.LeaseOf(claimed[0])}, f.toCancel(owner))
		f.end(claimed[0], amboy.StateCanceled)
	}
}

func raceCompleteOrCancel(f *fixture) {
	for round := range rounds {
		id := fmt.Sprint(round)
		f.insert(spec{id: id})
		r := f.claimOne(id)
		errs := f.together(f.completing(r, amboy.StateSucceeded), f.acting(driver.Cancel, id))
		require.NoError(f, errs[0])
		require.True(f, errs[1] == nil || isNothing(errs[1]), "the error is %v", errs[1])
		f.hasState(id, amboy.StateSucceeded)
		require.Empty(f, f.toCancel(owner))
	}
	f.consistent()
}

func raceAwaitRetryOrCancel(f *fixture) {
	for round := range rounds {
		id := fmt.Sprint(round)
		f.insert(spec{id: id, retryable: true, uniqueKey: "key"})
		r := f.claimOne(id)
		errs := f.together(f.completing(r, amboy.StateRetrying), f.acting(driver.Cancel, id))
		require.NoError(f, errors.Join(errs...))
		f.hasState(id, amboy.StateCanceled)
		f.refusesRetry(r)
	}
	f.consistent()
}

func raceHandBackOrCancel(f *fixture) {
	for round := range rounds {
		id := fmt.Sprint(round)
		f.insert(spec{id: id, uniqueKey: "key"})
		r := f.claimOne(id)
		f.endLeases()
		handBack := func() error {
			_, err := f.driver.RecoverStale(f.ctx)
			return err
		}
		if round%2 == 0 {
			handBack = func() error {
				return every(f.driver.Release(f.ctx, []driver.HandBack{{Lease: driver.LeaseOf(r)}}))
			}
		}
		errs := f.together(handBack, f.acting(driver.Cancel, id))
		require.NoError(f, errors.Join(errs...))
		f.hasState(id, amboy.StateCanceled)
		require.Empty(f, f.claim(10))
	}
	f.consistent()
}

func raceRetryOrCancel(f *fixture) {
	scope := []string{"s"}
	for round := range rounds {
		id := fmt.Sprint(round)
		r := f.retrying(spec{id: id, scopes: scope, enqueueScopes: scope, uniqueKey: "key"})
		errs := f.together(
			func() error { return f.driver.Retry(f.ctx, endedRetry(r, amboy.StateFailed), nextAttempt(r)) },
			f.acting(driver.Cancel, id),
		)
		f.consistent()
		// Either the retry comes first and the next attempt is canceled, or the other way
		// round. A driver may skip the attempt that was replaced meanwhile.
		if errs[0] != nil {
			f.lost(errs[0])
			require.NoError(f, errs[1])
		}
		if isNothing(errs[1]) {
			f.act(driver.Action{Kind: driver.Cancel}, id)
		}
		f.hasState(id, amboy.StateCanceled)
		require.Empty(f, f.claim(10))
	}
}

func raceExtendOrRecover(f *fixture) {
	for round := range rounds {
		id := fmt.Sprint(round)
		f.insert(spec{id: id})
		r := f.claimOne(id)
		f.endLeases()
		var lost []driver.Lease
		recovered := 0
		errs := f.together(
			func() (err error) {
				lost, err = f.driver.Extend(f.ctx, []driver.Lease{driver.LeaseOf(r)}, leaseTime)
				return err
			},
			func() (err error) {
				recovered, err = f.driver.RecoverStale(f.ctx)
				return err
			},
		)
		require.NoError(f, errors.Join(errs...))
		require.Len(f, lost, recovered, "the lease is lost if it was recovered")
		if recovered == 1 {
			r = f.claimOne(id)
		}
		f.end(r, amboy.StateSucceeded)
	}
}

func raceReleaseOrComplete(f *fixture) {
	for round := range rounds {
		id := fmt.Sprint(round)
		f.insert(spec{id: id, scopes: []string{"s"}})
		r := f.claimOne(id)
		errs := f.together(f.completing(r, amboy.StateSucceeded), func() error {
			return every(f.driver.Release(f.ctx, []driver.HandBack{{Lease: driver.LeaseOf(r)}}))
		})
		f.one(errs, isLost)
		f.consistent()
		if errs[1] == nil {
			f.end(f.claimOne(id), amboy.StateSucceeded)
		}
		f.hasState(id, amboy.StateSucceeded)
	}
}

func raceRestartOrDelete(f *fixture) {
	for round := range rounds {
		id := fmt.Sprint(round)
		f.insert(spec{id: id})
		f.end(f.claimOne(id), amboy.StateFailed)
		restart, remove := f.acting(driver.Restart, id), f.acting(driver.Delete, id)
		errs := f.together(restart, remove, restart, remove)
		f.one(errs, isNothing)
		if errs[0] == nil || errs[2] == nil {
			f.end(f.claimOne(id), amboy.StateSucceeded)
			continue
		}
		f.removed[f.queue]++
		f.missing(id)
	}
	f.consistent()
}

func raceForget(f *fixture) {
	jobs := 0
	for round := range rounds {
		jobs++
		f.endedAt(fmt.Sprint(round), amboy.StateSucceeded, f.after(0))
	}
	var forgotten atomic.Int64
	errs := f.together(four(func() error {
		for {
			n, err := f.driver.Forget(f.ctx, f.after(1), 3)
			if err != nil || n == 0 {
				return err
			}
			forgotten.Add(int64(n))
		}
	})...)
	require.NoError(f, errors.Join(errs...))
	f.removed[f.queue] = jobs
	require.EqualValues(f, jobs, forgotten.Load())
	f.consistent()
	assert.Empty(f, f.list())
}

func raceDuty(f *fixture) {
	for round := range rounds {
		var racing []func() error
		for i := range 4 {
			duty := driver.Duty{Name: fmt.Sprint(round), Owner: fmt.Sprint(i), For: time.Hour}
			racing = append(racing, func() error {
				taken, err := f.driver.TakeDuty(f.ctx, duty, f.start)
				if err == nil && !taken {
					err = errNothing
				}
				return err
			})
		}
		f.one(f.together(racing...), isNothing)
	}
}

func raceDrain(f *fixture) {
	yes := true
	for round := range rounds {
		in := f.in(fmt.Sprint("queue ", round))
		before := 0
		r := in.record(spec{id: "job"})
		errs := in.together(
			func() error { return every(in.driver.Insert(f.ctx, []*driver.Record{r})) },
			func() error {
				_, err := in.driver.Control(f.ctx, in.queue, driver.ControlChange{Draining: &yes})
				if err == nil {
					before, err = in.driver.Count(f.ctx, driver.Query{Queues: []string{in.queue}}, 10)
				}
				return err
			},
		)
		require.NoError(f, errs[1])
		require.Len(f, in.list(), before, "a record was inserted after the queue was drained")
		if errs[0] != nil {
			require.ErrorIs(f, errs[0], amboy.ErrQueueDraining)
			require.Zero(f, before)
		}
	}
}
