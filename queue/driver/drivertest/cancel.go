package drivertest

import (
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var cancelRules = []rule{
	{"a canceled record shows how it ended", cancelShows},
	{"a canceled record gives up its scopes", cancelFreesScopes},
	{"dependents of a canceled record find it among their failed edges", cancelWakes},
	{"a canceled record no longer waits for its edges", cancelLeavesEdges},
	{"a record that awaits its retry is not retried", cancelRetrying},
	{"a running record is marked and continues", cancelRunning},
	{"a marked record is not retried", cancelInsteadOfRetry},
	{"the owner learns which of its records to cancel", cancelRequests},
	{"a marked record ends as canceled if it is handed back", cancelInsteadOfRelease},
	{"a marked record ends as canceled if it is recovered", cancelInsteadOfRecovery},
	{"recovered records do not wait for a record that the same recovery ends", cancelRecoversDependent},
	{"a record that ends because of a mark may be forgotten at the time of the action", cancelForgetAt},
	{"a mark is removed when the record ends", cancelMarkGoes},
	{"a marked record that ends without success shows the reason", cancelShowsReason},
}

func (f *fixture) cancel(ids ...string) {
	f.Helper()
	f.act(driver.Action{Kind: driver.Cancel, Reason: "not wanted", ForgetAt: f.after(9)}, ids...)
}

func cancelShows(f *fixture) {
	f.insert(spec{id: "job"})
	f.cancel("job")
	got := f.get("job")
	assert.Equal(f, amboy.StateCanceled, stateOf(got))
	assert.True(f, got.Status.Completed)
	assert.Equal(f, amboy.OutcomeCanceled, got.Status.Outcome)
	assert.Equal(f, "not wanted", got.Status.Reason)
	assert.Empty(f, got.Status.Hold)
	assert.WithinDuration(f, time.Now(), got.TimeInfo.End, patience)
	assert.True(f, f.after(9).Equal(got.ForgetAt))
	assert.Empty(f, f.claim(10))
	f.refusesLease(got)
}

func cancelFreesScopes(f *fixture) {
	s := []string{"s"}
	f.insert(spec{id: "job", scopes: s, enqueueScopes: s}, spec{id: "waiting", scopes: s})
	f.hasState("waiting", amboy.StateBlocked)
	f.cancel("job")
	assert.Empty(f, f.get("job").Scopes)
	f.end(f.claimOne("waiting"), amboy.StateSucceeded)

	f.insert(spec{id: "holder", scopes: s, enqueueScopes: s}, spec{id: "blocked", scopes: s})
	f.cancel("blocked")
	f.end(f.claimOne("holder"), amboy.StateSucceeded)
	assert.Empty(f, f.claim(10))
}

func cancelWakes(f *fixture) {
	f.insert(spec{id: "a"}, spec{id: "b", edges: []string{"a"}}, spec{id: "c", edges: []string{"b"}})
	f.cancel("b")
	assert.Equal(f, []string{"a", "c"}, jobIDs(f.claim(10)))
	assert.Equal(f, []string{"b"}, f.get("c").Dependency.Failed)
	f.insert(spec{id: "late", edges: []string{"b"}})
	assert.Equal(f, []string{"b"}, f.claimOne("late").Dependency.Failed)
}

func cancelLeavesEdges(f *fixture) {
	f.insert(spec{id: "target"}, spec{id: "job", edges: []string{"target"}})
	f.cancel("job")
	f.end(f.claimOne("target"), amboy.StateSucceeded)
	f.hasState("job", amboy.StateCanceled)
	assert.Empty(f, f.claim(10))
}

func cancelRetrying(f *fixture) {
	s := []string{"s"}
	r := f.retrying(spec{id: "job", scopes: s, enqueueScopes: s})
	f.insert(spec{id: "waiting", scopes: s}, spec{id: "dependent", edges: []string{"job"}})
	f.cancel("job")
	got := f.get("job")
	assert.Equal(f, amboy.StateCanceled, stateOf(got))
	assert.Equal(f, []string{"it failed"}, got.Status.Errors, "its errors stay")
	assert.Equal(f, 0, f.stats().Retrying)
	f.refusesRetry(r)
	woken := f.claim(10)
	require.Equal(f, []string{"waiting", "dependent"}, jobIDs(woken))
	assert.Equal(f, []string{"job"}, woken[1].Dependency.Failed)
}

func cancelRunning(f *fixture) {
	f.insert(spec{id: "job", scopes: []string{"s"}})
	r := f.claimOne("job")
	assert.False(f, f.get("job").CancelRequested)
	f.cancel("job")
	got := f.get("job")
	assert.Equal(f, amboy.StateRunning, stateOf(got))
	assert.True(f, got.CancelRequested)
	assert.Equal(f, driver.LeaseOf(r), driver.LeaseOf(got))
	assert.Equal(f, []string{"s"}, got.Scopes)
	assert.False(f, f.tryExtend(driver.LeaseOf(r)))
	f.end(r, amboy.StateCanceled)
	f.hasState("job", amboy.StateCanceled)
}

func cancelInsteadOfRetry(f *fixture) {
	s := []string{"s"}
	f.insert(spec{id: "job", scopes: s, enqueueScopes: s, uniqueKey: "key", retryable: true})
	f.insert(spec{id: "waiting", scopes: s}, spec{id: "dependent", edges: []string{"job"}})
	r := f.claimOne("job")
	f.cancel("job")
	e := f.endAt(r, amboy.StateRetrying, f.after(1))
	f.hasState("job", amboy.StateCanceled)
	assert.Equal(f, []string{"it failed"}, f.get("job").Status.Errors, "its errors stay")
	assert.Zero(f, f.stats().Retrying)
	assert.Empty(f, f.toCancel(owner))
	f.refusesRetry(e)
	f.hasKey(false, "was canceled")
	woken := f.claim(10)
	require.Equal(f, []string{"waiting", "dependent"}, jobIDs(woken))
	assert.Equal(f, []string{"job"}, woken[1].Dependency.Failed)
}

// endsMarked requires that handBack ends a marked running record as canceled.
func (f *fixture) endsMarked(handBack func(r *driver.Record)) {
	f.Helper()
	put, all := []string{"put"}, []string{"put", "run"}
	f.insert(spec{id: "job", scopes: all, enqueueScopes: put, uniqueKey: "key", retryable: true, priority: 1})
	f.insert(spec{id: "put", scopes: put}, spec{id: "run", scopes: all[1:]}, spec{id: "dependent", edges: []string{"job"}})
	r := f.claimOne("job")
	f.cancel("job")
	handBack(r)
	got := f.get("job")
	assert.Equal(f, amboy.StateCanceled, stateOf(got), "the status is %+v", got.Status)
	assert.Equal(f, amboy.OutcomeCanceled, got.Status.Outcome)
	assert.Equal(f, "not wanted", got.Status.Reason)
	assert.False(f, got.RetryInfo.NeedsRetry)
	assert.WithinDuration(f, time.Now(), got.TimeInfo.End, patience)
	assert.True(f, r.TimeInfo.Start.Equal(got.TimeInfo.Start), "the start is %s", got.TimeInfo.Start)
	assert.Equal(f, r.Status.Owner, got.Status.Owner)
	assert.Equal(f, r.Status.ModificationCount+1, got.Status.ModificationCount)
	assert.Empty(f, f.toCancel(owner))
	f.refusesLease(r)
	f.hasKey(false, "was canceled")
	woken := f.claimAt(9, 10).Records
	require.Equal(f, []string{"put", "run", "dependent"}, jobIDs(woken))
	assert.Equal(f, []string{"job"}, woken[2].Dependency.Failed)
}

func cancelInsteadOfRelease(f *fixture) {
	for queue, how := range map[string]driver.HandBack{
		"at once": {},
		"later":   {NotBefore: f.after(1), Reason: "the disk is full"},
		"parked":  {Park: true, Reason: "unknown type"},
	} {
		f.in(queue).endsMarked(func(r *driver.Record) {
			how.Lease = driver.LeaseOf(r)
			f.release(how)
		})
	}
}

func cancelInsteadOfRecovery(f *fixture) {
	f.endsMarked(func(*driver.Record) {
		require.Equal(f, 1, f.recoverEnded())
		assert.Zero(f, f.recoverEnded())
	})
}

func cancelRecoversDependent(f *fixture) {
	f.insert(spec{id: "job"}, spec{id: "dependent", edges: []string{"job"}, dispatchBy: f.after(1)})
	f.claimOne("job")
	require.Equal(f, []string{"dependent"}, jobIDs(f.claimAt(1.1, 0).Records), "it has expired")
	f.cancel("job")
	require.Equal(f, 2, f.recoverEnded())
	f.hasState("job", amboy.StateCanceled)
	f.hasState("dependent", amboy.StatePending)
	assert.Equal(f, []string{"job"}, f.claimOne("dependent").Dependency.Failed)
}

func cancelForgetAt(f *fixture) {
	f.insert(spec{id: "released"}, spec{id: "timeless"}, spec{id: "retried", retryable: true}, spec{id: "own", retryable: true})
	running := f.claim(4)
	f.cancel("released", "retried")
	f.act(driver.Action{Kind: driver.Cancel}, "timeless", "own")
	for _, r := range running[:2] {
		f.release(driver.HandBack{Lease: driver.LeaseOf(r)})
	}
	for _, r := range running[2:] {
		f.endAt(r, amboy.StateRetrying, f.after(1))
	}
	for id, want := range map[string]time.Time{"released": f.after(9), "timeless": {}, "retried": f.after(9), "own": f.after(1)} {
		f.hasState(id, amboy.StateCanceled)
		got := f.get(id).ForgetAt
		assert.True(f, want.Equal(got), "%s may be forgotten at %s, not %s", id, want, got)
	}
	assert.Equal(f, 1, f.forget(f.after(8.9), 10))
	assert.Equal(f, 2, f.forget(f.after(9), 10))
	assert.Equal(f, []string{"timeless"}, jobIDs(f.list()))
}

func cancelShowsReason(f *fixture) {
	endings := map[string]struct{ by, want amboy.JobState }{
		"noticed": {amboy.StateCanceled, amboy.StateCanceled},
		"failed":  {amboy.StateFailed, amboy.StateCanceled},
		"retry":   {amboy.StateRetrying, amboy.StateCanceled},
		"done":    {amboy.StateSucceeded, amboy.StateSucceeded},
		"expired": {amboy.StateExpired, amboy.StateExpired},
	}
	for _, scopes := range [][]string{nil, {"s"}} {
		for id, ending := range endings {
			q := f.in(id + strings.Join(scopes, ""))
			q.insert(spec{id: "job", scopes: scopes, retryable: true})
			r := q.claimOne("job")
			q.cancel("job")
			q.endAt(r, ending.by, f.after(1))
			got := q.get("job")
			assert.Equal(f, ending.want, stateOf(got), "ended as %s", ending.by)
			reason, forgetAt := "", f.after(1)
			if ending.want == amboy.StateCanceled {
				reason = "not wanted"
			}
			if ending.want != ending.by {
				forgetAt = f.after(9)
			}
			assert.Equal(f, reason, got.Status.Reason, "ended as %s", ending.by)
			assert.True(f, forgetAt.Equal(got.ForgetAt), "ended as %s, may be forgotten at %s", ending.by, got.ForgetAt)
		}
	}
}

// toCancel returns the leases that an owner is asked to cancel.
func (f *fixture) toCancel(by string) []driver.Lease {
	f.Helper()
	leases, err := f.driver.CancelRequests(f.ctx, by)
	require.NoError(f, err)
	return leases
}

func cancelRequests(f *fixture) {
	a, b := f.in("a"), f.in("b")
	a.insert(spec{id: "1"}, spec{id: "2"}, spec{id: "3"})
	b.insert(spec{id: "1"})
	mine := a.tryClaim("me", f.start, 2).Records
	others := a.tryClaim("other", f.start, 1).Records
	mine = append(mine, b.tryClaim("me", f.start, 1).Records...)
	require.Len(f, mine, 3)
	require.Len(f, others, 1)
	assert.Empty(f, f.toCancel("me"))
	a.cancel("1", "3")
	b.cancel("1")
	want := []driver.Lease{driver.LeaseOf(mine[0]), driver.LeaseOf(mine[2])}
	for range 2 {
		assert.ElementsMatch(f, want, f.toCancel("me"), "they stay")
		assert.Equal(f, []driver.Lease{driver.LeaseOf(others[0])}, f.toCancel("other"))
	}
	assert.Empty(f, f.toCancel("unknown"))
}

func cancelMarkGoes(f *fixture) {
	f.insert(spec{id: "ended"}, spec{id: "back"}, spec{id: "recovered"})
	running := f.claim(3)
	f.cancel("ended", "back", "recovered")
	require.Len(f, f.toCancel(owner), 3)
	f.endAt(f.get("ended"), amboy.StateSucceeded, f.after(1)) // its work was done
	f.hasState("ended", amboy.StateSucceeded)
	assert.Empty(f, f.get("ended").Status.Reason)
	assert.True(f, f.after(1).Equal(f.get("ended").ForgetAt))
	f.release(driver.HandBack{Lease: driver.LeaseOf(running[1])})
	assert.Equal(f, []driver.Lease{driver.LeaseOf(running[2])}, f.toCancel(owner))
	require.Equal(f, 1, f.recoverEnded())
	assert.Empty(f, f.toCancel(owner))
	f.restart("back", "recovered")
	require.Len(f, f.claim(10), 2)
	assert.Empty(f, f.toCancel(owner), "later claims have other leases")
	for _, id := range []string{"ended", "back", "recovered"} {
		assert.False(f, f.get(id).CancelRequested, "of %s", id)
	}
}
