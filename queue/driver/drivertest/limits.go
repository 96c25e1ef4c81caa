package drivertest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var limitRules = []rule{
	{"as many records of a limit run as it says", limitRuns},
	{"one claim keeps to a limit", limitPerClaim},
	{"records that wait for a limit are claimed by priority, then by arrival", limitOrder},
	{"a record that comes before ready ones takes the turn of the last", limitOvertakes},
	{"a record that waits for a limit does not delay others", limitWaitsAlone},
	{"a record waits for its limit and its scopes", limitAndScope},
	{"each record keeps to its own limit", limitsDiffer},
	{"a record that no longer waits for a small limit does not hold up those with a larger one", smallLimitLeaves},
	{"a limit is free after a hand-back, a retry, and an end of a record that does not run", limitFreed},
	{"a lease that has run out counts until it is recovered", limitOfLease},
	{"a limit counts the records of its queue", limitOfQueue},
	{"a plain scope and a limit of its name are different", limitIsNoScope},
	{"a record that waits for a limit shows that", limitShown},
	{"all of many waiting records get their turn", limitDrains},
	{"the key of a limit may be any text that the store accepts", limitKeys},
	{"a record keeps its scopes if one that is claimed with it makes room for a third", limitPassesWithinClaim},
	{"a claim of a record with a small limit lets those with larger ones be claimed", limitMakesRoom},
}

// limited returns scopes with the limit n.
func limited(n int) []string { return []string{amboy.LimitScope("l", n)} }

// limitedJobs inserts records from a number to another, with the limit n.
func (f *fixture) limitedJobs(from, to, n int) {
	f.Helper()
	var specs []spec
	for i := from; i <= to; i++ {
		specs = append(specs, spec{id: fmt.Sprint(i), scopes: limited(n)})
	}
	f.insert(specs...)
}

func limitRuns(f *fixture) {
	f.limitedJobs(1, 5, 2)
	first, second := f.claimOne("1"), f.claimOne("2")
	assert.Empty(f, f.claim(10))
	f.end(second, amboy.StateFailed)
	third := f.claimOne("3")
	assert.Empty(f, f.claim(10))
	f.end(first, amboy.StateSucceeded)
	f.end(third, amboy.StateSucceeded)
	assert.Equal(f, []string{"4", "5"}, jobIDs(f.claim(10)))
}

func limitPerClaim(f *fixture) {
	f.limitedJobs(1, 5, 3)
	assert.Equal(f, []string{"1", "2", "3"}, jobIDs(f.claim(10)))
	assert.Empty(f, f.claim(10))
}

func limitOrder(f *fixture) {
	f.limitedJobs(1, 2, 2)
	running := f.claim(10)
	f.insert(
		spec{id: "low", scopes: limited(2), priority: -1},
		spec{id: "first", scopes: limited(2)},
		spec{id: "second", scopes: limited(2)},
		spec{id: "high", scopes: limited(2), priority: 1},
	)
	for _, id := range []string{"high", "first", "second", "low"} {
		f.end(running[0], amboy.StateSucceeded)
		running = append(running[1:], f.claimOne(id))
		assert.Empty(f, f.claim(10))
	}
}

func limitOvertakes(f *fixture) {
	f.limitedJobs(1, 3, 2)
	f.insert(spec{id: "high", scopes: limited(2), priority: 1})
	assert.Equal(f, []string{"high", "1"}, jobIDs(f.claim(10)))
	f.prioritize("3", 2)
	f.end(f.get("1"), amboy.StateSucceeded)
	f.claimOne("3")
}

func limitWaitsAlone(f *fixture) {
	f.limitedJobs(1, 2, 2)
	f.claim(10)
	f.insert(
		spec{id: "waiting", scopes: append(limited(2), "t"), priority: 1},
		spec{id: "t", scopes: []string{"t"}},
		spec{id: "other", scopes: []string{amboy.LimitScope("other", 1)}},
		spec{id: "none"},
	)
	assert.Equal(f, []string{"t", "other", "none"}, jobIDs(f.claim(10)))
}

func limitAndScope(f *fixture) {
	both := append(limited(2), "s")
	f.insert(
		spec{id: "a", scopes: both},
		spec{id: "b", scopes: both},
		spec{id: "c", scopes: limited(2)},
		spec{id: "d", scopes: limited(2)},
	)
	running := f.claim(10)
	assert.Equal(f, []string{"a", "c"}, jobIDs(running))
	f.end(running[0], amboy.StateSucceeded)
	f.end(f.claimOne("b"), amboy.StateSucceeded)
	f.claimOne("d")
}

func limitsDiffer(f *fixture) {
	f.limitedJobs(1, 2, 2)
	running := f.claim(10)
	f.limitedJobs(3, 3, 3)
	running = append(running, f.claimOne("3"))
	f.limitedJobs(4, 4, 2)
	assert.Empty(f, f.claim(10), "three run")
	f.end(running[2], amboy.StateSucceeded)
	assert.Empty(f, f.claim(10), "two run")
	f.end(running[0], amboy.StateSucceeded)
	f.claimOne("4")
	f.limitedJobs(5, 5, 9)
	f.claimOne("5")
}

func smallLimitLeaves(f *fixture) {
	for name, leave := range map[string]func(id string){
		"rescheduled": func(id string) { f.reschedule(id, 1) },
		"runs later":  func(id string) { f.prioritize(id, -1) },
		"parked":      func(id string) { f.park(id) },
		"canceled":    func(id string) { f.cancel(id) },
		"edited": func(id string) {
			f.act(driver.Action{Kind: driver.Edit, Edit: &driver.EditedFields{
				Count: f.get(id).Status.ModificationCount, WaitUntil: new(f.after(1)),
			}}, id)
		},
	} {
		of := func(n int) []string { return []string{amboy.LimitScope(name, n)} }
		f.insert(spec{id: name + ", running", scopes: of(2)})
		f.claimOne(name + ", running")
		f.insert(spec{id: name + ", small", scopes: of(1)}, spec{id: name + ", large", scopes: of(2)})
		claimed := jobIDs(f.claim(10)) // a driver may let the large limit pass at once
		leave(name + ", small")
		assert.Equal(f, []string{name + ", large"}, append(claimed, jobIDs(f.claim(10))...))
	}
}

func limitFreed(f *fixture) {
	f.insert(
		spec{id: "a", scopes: limited(1), retryable: true},
		spec{id: "b", scopes: limited(1)},
		spec{id: "c", scopes: limited(1)},
	)
	a := f.end(f.claimOne("a"), amboy.StateRetrying)
	b := f.claimOne("b")
	f.retry(a)
	assert.Empty(f, f.claim(10))
	f.release(driver.HandBack{Lease: driver.LeaseOf(b), Park: true})
	c := f.claimOne("c")
	f.end(f.get("a"), amboy.StateCanceled)
	f.unpark("b")
	assert.Empty(f, f.claim(10))
	f.end(c, amboy.StateSucceeded)
	f.claimOne("b")
}

func limitOfLease(f *fixture) {
	f.limitedJobs(1, 3, 2)
	require.Len(f, f.claim(10), 2)
	f.endLeases()
	assert.Empty(f, f.claim(10))
	require.Equal(f, 2, f.recover())
	assert.Equal(f, []string{"1", "2"}, jobIDs(f.claim(10)), "they keep their places")
	assert.Empty(f, f.claim(10))
}

func limitOfQueue(f *fixture) {
	f.limitedJobs(1, 2, 1)
	other := f.in("other")
	other.limitedJobs(1, 2, 1)
	first := f.claimOne("1")
	other.claimOne("1")
	f.end(first, amboy.StateSucceeded)
	f.claimOne("2")
	assert.Empty(f, other.claim(10))
}

func limitIsNoScope(f *fixture) {
	f.insert(
		spec{id: "limited", scopes: limited(1)},
		spec{id: "scope", scopes: []string{"l"}},
	)
	assert.Len(f, f.claim(10), 2)
}

func limitShown(f *fixture) {
	f.limitedJobs(1, 3, 2)
	f.claim(10)
	f.hasState("3", amboy.StateBlocked)
	got := f.get("3")
	assert.Equal(f, amboy.HoldBlocked, got.Status.Hold)
	assert.Equal(f, `waits for scope "l (at most 2)"`, got.Status.Reason)
	assert.Empty(f, got.Scopes)
	assert.Equal(f, limited(2), f.get("1").Scopes)
	f.findsAll([]string{"1", "2"}, driver.Query{Queues: []string{f.queue}, Holding: true, Latest: true})
	f.findsAll([]string{"1", "2"}, driver.Query{Queues: []string{f.queue}, Holding: true, Scope: limited(2)[0]})
	f.findsAll(nil, driver.Query{Queues: []string{f.queue}, Holding: true, Scope: limited(3)[0]})
	f.findsAll([]string{"1", "2", "3"}, driver.Query{Queues: []string{f.queue}, Scope: limited(2)[0]})
}

// limitKeys has keys that mean something in regular expressions, or end strings.
func limitKeys(f *fixture) {
	keys := []string{"a\x00b", "\x00", `^a|b(c)[d]{2}.*+?$\`, "a #1", "é😀", " ", strings.Repeat("x", amboy.MaxIDLength)}
	now, later := []string{"none"}, []string{"none later"}
	f.insert(spec{id: "none"}, spec{id: "none later", waitUntil: f.after(1)})
	for i, key := range keys {
		scopes := []string{amboy.LimitScope(key, 1)}
		ready, due := fmt.Sprint("ready", i), fmt.Sprint("due", i)
		errs := f.tryInsert(spec{id: due, scopes: scopes, waitUntil: f.after(1)}, spec{id: ready, scopes: scopes})
		var invalid *amboy.InvalidJobError
		if errors.As(errs[0], &invalid) {
			require.ErrorAs(f, errs[1], &invalid)
			continue
		}
		require.NoError(f, errors.Join(errs...))
		now, later = append(now, ready), append(later, due)
	}
	running := f.claim(100)
	assert.ElementsMatch(f, now, jobIDs(running))
	assert.Equal(f, later[:1], jobIDs(f.claimAt(2, 100).Records), "the others wait for the limits")
	for _, r := range running {
		f.end(r, amboy.StateSucceeded)
	}
	assert.ElementsMatch(f, later[1:], jobIDs(f.claimAt(2, 100).Records))
}

func limitDrains(f *fixture) {
	const jobs, n = 40, 3
	var specs []spec
	for i := range jobs {
		s := spec{id: fmt.Sprint(i), scopes: append(limited(n), fmt.Sprint(i%20))} // many sets of scopes
		specs = append(specs, s)
	}
	f.insert(specs...)
	for ended := 0; ended < jobs; {
		records := f.claim(jobs)
		require.NotEmpty(f, records, "after %d records", ended)
		require.LessOrEqual(f, len(records), n)
		for _, r := range records {
			f.end(r, amboy.StateSucceeded)
			ended++
		}
	}
}

func raceLimit(f *fixture) {
	if !f.driver.Features().Limits {
		return
	}
	const jobs, n = 30, 3
	f.limitedJobs(1, jobs, n)
	done := newTally()
	var mu sync.Mutex
	running := 0
	enter := func(by int) error {
		mu.Lock()
		defer mu.Unlock()
		running += by
		if running > n {
			return fmt.Errorf("%d records run", running)
		}
		return nil
	}
	work := func(by string) error {
		for done.len() < jobs {
			records, err := f.claimAs(by, 2)
			err = errors.Join(err, enter(len(records)))
			if err != nil {
				return err
			}
			for _, r := range records {
				err = enter(-1)
				if err == nil && r.Status.ModificationCount == 1 && len(r.Name)%2 == 0 {
					err = every(f.driver.Release(f.ctx, []driver.HandBack{{Lease: driver.LeaseOf(r)}}))
				} else if err == nil {
					done.add(r.Name)
					err = every(f.driver.Complete(f.ctx, []driver.Completion{{Lease: driver.LeaseOf(r), Record: ended(r, amboy.StateSucceeded)}}))
				}
				if err != nil {
					return err
				}
			}
		}
		return nil
	}
	var workers []func() error
	for i := range 4 {
		workers = append(workers, func() error { return work(fmt.Sprint(i)) })
	}
	require.NoError(f, errors.Join(f.together(workers...)...))
	f.consistent()
	assert.Equal(f, jobs, f.stats().Completed)
}

// The third record runs before the second, for whose scope it does not wait yet when both are ready.
func limitPassesWithinClaim(f *fixture) {
	small, large := amboy.LimitScope("l", 1), amboy.LimitScope("l", 2)
	f.insert(
		spec{id: "first", scopes: []string{small}, priority: 3},
		spec{id: "second", scopes: []string{"s"}, priority: 1},
		spec{id: "third", scopes: []string{large, "s"}, priority: 2},
	)
	running := f.claim(10)
	holder := running[1]
	require.Contains(f, []string{"second", "third"}, holder.JobID())
	require.Len(f, running, 2)
	assert.Empty(f, f.claim(10), "one of them holds the scope")
	assert.False(f, f.tryExtend(driver.LeaseOf(holder)), "its lease was lost")
	f.end(holder, amboy.StateSucceeded)
	assert.Len(f, f.claim(10), 1)
}

// The small limit counts until its record is claimed. A driver may let the others pass at once, or else the claim asks
// for another one, or notifies subscribers: no change follows that would do so.
func limitMakesRoom(f *fixture) {
	f.limitedJobs(1, 1, 1)
	f.limitedJobs(2, 2, 2)
	told := make(chan struct{}, 1)
	f.Cleanup(f.driver.Subscribe(func(c driver.Change) {
		if c.MayClaim {
			select {
			case told <- struct{}{}:
			default: // already notified
			}
		}
	}))
	now := time.Now()
	claimed := f.tryClaim(owner, now, 10)
	if len(claimed.Records) == 2 {
		return
	}
	require.Equal(f, []string{"1"}, jobIDs(claimed.Records))
	if claimed.Next.IsZero() || claimed.Next.After(now) {
		select {
		case <-told:
		case <-f.ctx.Done():
			require.Fail(f, "nothing makes the next claim follow")
		}
	}
	f.claimOne("2")
}
