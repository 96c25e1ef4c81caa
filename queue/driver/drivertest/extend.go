package drivertest

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var extendRules = []rule{
	{"nothing but the time of the lease changes", extendTouchesTime},
	{"a lease lasts as long as its claim said", claimLeaseTime},
	{"a renewed lease lasts as long as its renewal said, even if that is shorter", extendLeaseTime},
	{"lost leases are returned", extendReturnsLost},
	{"a recovered lease is lost, and writes under it are refused", staleAfterRecovery},
	{"a returned lease is lost, and writes under it are refused", staleAfterRelease},
	{"the lease of an ended record is lost, and writes under it are refused", staleAfterEnd},
	{"a record that is not running has no lease to renew or hand back", noLeaseOfPending},
	{"the lease of a record that was removed is not that of the next one with its name", staleAfterPutAgain},
}

func extendTouchesTime(f *fixture) {
	f.insert(spec{id: "job", scopes: []string{"s"}})
	f.claimOne("job")
	want := f.get("job")
	assert.False(f, f.tryExtend(driver.LeaseOf(want)))
	got := f.get("job")
	want.Status.ModificationTime = got.Status.ModificationTime
	f.same(want, got)
}

// lasts requires that a lease lasts for a time and then ends.
func (f *fixture) lasts(leaseTime time.Duration) {
	f.Helper()
	f.elapse(leaseTime - time.Minute)
	require.Zero(f, f.recover())
	f.elapse(2 * time.Minute)
	require.Equal(f, 1, f.recover())
}

func claimLeaseTime(f *fixture) {
	f.insert(spec{id: "job"})
	for _, leaseTime := range []time.Duration{15 * time.Minute, 3 * time.Hour} {
		req := f.request(owner, f.start, 1)
		req.LeaseTime = leaseTime
		claimed, err := f.driver.Claim(f.ctx, req)
		require.NoError(f, err)
		require.Len(f, claimed.Records, 1)
		f.lasts(leaseTime)
	}
}

func extendLeaseTime(f *fixture) {
	f.insert(spec{id: "job"})
	for _, leaseTime := range []time.Duration{3 * time.Hour, 15 * time.Minute} {
		lease := driver.LeaseOf(f.tryClaim(owner, f.start, 1).Records[0])
		lost, err := f.driver.Extend(f.ctx, []driver.Lease{lease}, leaseTime)
		require.NoError(f, err)
		require.Empty(f, lost)
		f.lasts(leaseTime)
	}
}

func extendReturnsLost(f *fixture) {
	f.insert(spec{id: "a"}, spec{id: "b"}, spec{id: "c"})
	running := f.claim(3)
	f.end(running[1], amboy.StateSucceeded)
	good, ended, unknown := driver.LeaseOf(running[0]), driver.LeaseOf(running[1]), driver.Lease{Queue: f.queue, Name: "unknown", Owner: owner, Count: 1}
	thief := driver.LeaseOf(running[2])
	thief.Owner = "thief"

	lost, err := f.driver.Extend(f.ctx, []driver.Lease{ended, good, unknown, thief}, leaseTime)
	require.NoError(f, err)
	assert.ElementsMatch(f, []driver.Lease{ended, unknown, thief}, lost)
	f.elapse(leaseTime / 2)
	lost, err = f.driver.Extend(f.ctx, []driver.Lease{good, thief}, leaseTime)
	require.NoError(f, err)
	assert.Equal(f, []driver.Lease{thief}, lost)
	f.elapse(leaseTime/2 + time.Second)
	assert.Equal(f, 1, f.recover(), "another owner renews nothing")
	f.hasState("a", amboy.StateRunning)

	lost, err = f.driver.Extend(f.ctx, nil, leaseTime)
	require.NoError(f, err)
	assert.Empty(f, lost)
}

// refusesLease requires that no call writes under a lease.
func (f *fixture) refusesLease(r *driver.Record) {
	f.Helper()
	unchanged := f.unchanged()
	lease := driver.LeaseOf(r)
	f.lost(f.tryComplete(lease, ended(r, amboy.StateSucceeded)))
	f.lost(f.tryRelease(driver.HandBack{Lease: lease}))
	f.lost(f.tryRelease(driver.HandBack{Lease: lease, Park: true}))
	require.True(f, f.tryExtend(lease), "the lease must be lost")
	unchanged()
}

func staleAfterRecovery(f *fixture) {
	f.insert(spec{id: "job", scopes: []string{"s"}})
	stale := f.claimOne("job")
	require.Equal(f, 1, f.recoverEnded())
	f.refusesLease(stale)

	again := f.claimOne("job") // by the same owner
	f.refusesLease(stale)
	require.Equal(f, 1, f.recoverEnded())
	other := f.tryClaim("other", time.Now(), 1).Records
	require.Len(f, other, 1)
	f.refusesLease(stale)
	f.refusesLease(again)
	f.end(other[0], amboy.StateSucceeded)
}

func staleAfterRelease(f *fixture) {
	f.insert(spec{id: "job"})
	stale := f.claimOne("job")
	f.release(driver.HandBack{Lease: driver.LeaseOf(stale), NotBefore: f.after(1)})
	f.refusesLease(stale)
}

func staleAfterEnd(f *fixture) {
	f.insert(spec{id: "job", retryable: true, priority: 1}, spec{id: "plain"})
	plain := f.claim(2)[1]
	f.end(plain, amboy.StateFailed)
	f.refusesLease(plain)

	r := f.get("job")
	f.end(r, amboy.StateRetrying)
	f.refusesLease(r)
	f.retry(f.get("job"))
	f.refusesLease(r)
	f.refusesLease(f.get("plain"))
}

func noLeaseOfPending(f *fixture) {
	f.insert(spec{id: "job"})
	unchanged := f.unchanged()
	shown := driver.LeaseOf(f.get("job"))
	assert.True(f, f.tryExtend(shown))
	f.lost(f.tryRelease(driver.HandBack{Lease: shown}))
	unchanged()
}

// A worker that was suspended for long comes back after its job was removed and put again.
func staleAfterPutAgain(f *fixture) {
	for name, put := range map[string]struct {
		remove     func(id string)
		hoursLater float64
	}{
		"deleted":                        {func(id string) { f.delete(id) }, 1},
		"forgotten":                      {func(string) { require.Equal(f, 1, f.forget(f.after(5), 10)) }, 1},
		"claimed at the same time again": {func(id string) { f.delete(id) }, 0},
		"the clock was set back":         {func(id string) { f.delete(id) }, -0.5},
	} {
		s := spec{id: name, note: "stored"}
		f.insert(s)
		first := f.claimAt(1, 1).Records
		require.Len(f, first, 1)
		stale := first[0]
		f.endAt(stale, amboy.StateSucceeded, f.after(5))
		put.remove(s.id)

		f.insert(s)
		f.refusesLease(stale)
		second := f.claimAt(1+put.hoursLater, 1).Records // by the same owner, and for the first time as well
		require.Len(f, second, 1)
		require.NotEqual(f, driver.LeaseOf(stale), driver.LeaseOf(second[0]))
		f.refusesLease(stale)
		unchanged := f.unchanged()
		f.lost(f.driver.SetProgress(f.ctx, driver.LeaseOf(stale), f.progress(1, "stale")))
		f.lost(f.driver.Save(f.ctx, stale))
		if f.driver.Features().NextAttempts {
			errs, err := f.driver.Complete(f.ctx, []driver.Completion{{
				Lease: driver.LeaseOf(stale), Record: ended(stale, amboy.StateFailed), Next: nextAttempt(stale),
			}})
			require.NoError(f, err)
			f.lost(errs[0])
		}
		unchanged()
		f.act(driver.Action{Kind: driver.Cancel}, s.id)
		assert.Equal(f, []driver.Lease{driver.LeaseOf(second[0])}, f.toCancel(owner))
		require.False(f, f.tryExtend(driver.LeaseOf(second[0])))
		f.end(second[0], amboy.StateSucceeded)
	}
}
