package drivertest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// patience bounds each test: a driver that does not answer fails it.
const patience = 20 * time.Second

// owner is the queue that claims, where a test does not name another.
const owner = "owner"

// fixture is one test on an empty driver. Its calls must succeed, but for those
// that return an error, and each is followed by a check that the driver's
// answers agree with each other.
type fixture struct {
	*testing.T
	ctx    context.Context
	driver driver.Driver
	// start is when the test began, as every store keeps it. Tests that need
	// the future claim at a time that lies hours after it.
	start time.Time
	// unchecked leaves out the check after each call, for a test that has its
	// own.
	unchecked bool
}

func newFixture(t *testing.T, open func(t *testing.T) driver.Driver) *fixture {
	t.Helper()
	d := open(t)
	require.NotNil(t, d, "open must return a driver")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(func() {
		assert.NoError(t, d.Close(ctx), "closing the driver")
		cancel()
	})
	return &fixture{T: t, ctx: ctx, driver: d, start: wholeMillisecond(time.Now())}
}

// after is a time some hours after the start of the test.
func (f *fixture) after(hours float64) time.Time {
	return f.start.Add(time.Duration(hours * float64(time.Hour)))
}

// tryInsert returns the error of each record.
func (f *fixture) tryInsert(specs ...spec) []error {
	f.Helper()
	records := make([]*driver.Record, len(specs))
	for i, s := range specs {
		records[i] = f.record(s)
	}
	errs, err := f.driver.Insert(f.ctx, records)
	require.NoError(f, err)
	require.Len(f, errs, len(specs), "there must be an error, or nil, for each record")
	f.consistent()
	return errs
}

func (f *fixture) insert(specs ...spec) {
	f.Helper()
	for i, err := range f.tryInsert(specs...) {
		require.NoError(f, err, "inserting job %q", specs[i].id)
	}
}

func (f *fixture) tryClaim(by string, at time.Time, limit int) driver.Claimed {
	f.Helper()
	claimed, err := f.driver.Claim(f.ctx, driver.ClaimRequest{Owner: by, Limit: limit, Now: at})
	require.NoError(f, err)
	f.consistent()
	return claimed
}

// claimAt claims at a time in the future.
func (f *fixture) claimAt(hours float64, limit int) driver.Claimed {
	f.Helper()
	return f.tryClaim(owner, f.after(hours), limit)
}

// claim claims now, and returns what it got.
func (f *fixture) claim(limit int) []*driver.Record {
	f.Helper()
	return f.tryClaim(owner, time.Now(), limit).Records
}

// claimOne claims the record that is the only one that may run, or the first.
func (f *fixture) claimOne(id string) *driver.Record {
	f.Helper()
	records := f.claim(1)
	require.Equal(f, []string{id}, jobIDs(records))
	return records[0]
}

func (f *fixture) tryComplete(l driver.Lease, r *driver.Record) error {
	f.Helper()
	errs, err := f.driver.Complete(f.ctx, []driver.Completion{{Lease: l, Record: r}})
	require.NoError(f, err)
	require.Len(f, errs, 1)
	f.consistent()
	return errs[0]
}

// end ends the attempt of a claimed record in a state, and returns what was
// written.
func (f *fixture) end(r *driver.Record, state amboy.JobState) *driver.Record {
	f.Helper()
	e := ended(r, state)
	require.NoError(f, f.tryComplete(driver.LeaseOf(r), e), "completing record %q", r.Name)
	return e
}

func (f *fixture) tryRelease(h driver.HandBack) error {
	f.Helper()
	errs, err := f.driver.Release(f.ctx, []driver.HandBack{h})
	require.NoError(f, err)
	require.Len(f, errs, 1)
	f.consistent()
	return errs[0]
}

func (f *fixture) release(h driver.HandBack) {
	f.Helper()
	require.NoError(f, f.tryRelease(h), "releasing record %q", h.Lease.Name)
}

func (f *fixture) tryExtend(l driver.Lease, at time.Time) (lost bool) {
	f.Helper()
	leases, err := f.driver.Extend(f.ctx, []driver.Lease{l}, at)
	require.NoError(f, err)
	f.consistent()
	if len(leases) == 0 {
		return false
	}
	require.Equal(f, []driver.Lease{l}, leases)
	return true
}

func (f *fixture) tryRetry(r, next *driver.Record) error {
	f.Helper()
	err := f.driver.Retry(f.ctx, endedRetry(r, amboy.StateFailed), next)
	f.consistent()
	return err
}

// retry replaces a record that awaits its retry by its next attempt.
func (f *fixture) retry(r *driver.Record) {
	f.Helper()
	require.NoError(f, f.tryRetry(r, nextAttempt(r)), "retrying record %q", r.Name)
}

func (f *fixture) recover(before time.Time) int {
	f.Helper()
	n, err := f.driver.RecoverStale(f.ctx, before)
	require.NoError(f, err)
	f.consistent()
	return n
}

func (f *fixture) get(id string) *driver.Record {
	f.Helper()
	r, err := f.driver.Get(f.ctx, id)
	require.NoError(f, err)
	require.Equal(f, id, r.JobID())
	return r
}

func (f *fixture) list(states ...amboy.JobState) []*driver.Record {
	f.Helper()
	records, err := f.driver.List(f.ctx, states...)
	require.NoError(f, err)
	return records
}

func (f *fixture) stats() amboy.QueueStats {
	f.Helper()
	stats, err := f.driver.Stats(f.ctx)
	require.NoError(f, err)
	return stats
}

// hasState requires that Get shows a job in a state.
func (f *fixture) hasState(id string, state amboy.JobState) {
	f.Helper()
	r := f.get(id)
	require.Equal(f, state, stateOf(r), "the state of job %q, whose status is %+v", id, r.Status)
}

// lost requires that an error says that a lease is lost.
func (f *fixture) lost(err error) {
	f.Helper()
	require.ErrorIs(f, err, driver.ErrLeaseLost)
}

// unchanged returns a function that requires that nothing has changed since.
func (f *fixture) unchanged() func() {
	f.Helper()
	stats, before := f.stats(), f.list()
	return func() {
		f.Helper()
		require.Equal(f, stats, f.stats())
		after := f.list()
		require.Len(f, after, len(before))
		for i := range after {
			f.same(before[i], after[i])
		}
	}
}

// same requires that two records have the same content.
func (f *fixture) same(want, got *driver.Record) {
	f.Helper()
	wanted, err := want.Encode(amboy.JSON)
	require.NoError(f, err)
	found, err := got.Encode(amboy.JSON)
	require.NoError(f, err)
	require.JSONEq(f, string(wanted), string(found))
}

// consistent requires that the driver's answers agree with each other.
func (f *fixture) consistent() {
	f.Helper()
	if !f.unchecked {
		f.agree(f.list(), f.stats())
	}
}

// agree requires that Stats counts what List lists, that what has ended holds no
// scope, and that no two jobs hold the same one.
func (f *fixture) agree(listed []*driver.Record, got amboy.QueueStats) {
	f.Helper()
	var want amboy.QueueStats
	holders := map[string]string{}
	for _, r := range listed {
		count(&want, r)
		if stateOf(r).IsFinal() && r.Status.Completed {
			require.Empty(f, r.Scopes, "record %q has ended, and holds scopes", r.Name)
		}
		if hasExpired(r) {
			continue // it was claimed to be ended, and takes none
		}
		for _, scope := range r.Scopes {
			require.Empty(f, holders[scope], "scope %q is held by record %q, and by this one", scope, r.Name)
			holders[scope] = r.Name
		}
	}
	require.Equal(f, want.String(), got.String(), "what Stats counts must be what List lists")
	require.Equal(f, got.Total, got.Pending+got.Running+got.Completed)
}

// hasExpired is true for a record that was claimed after its dispatch-by time.
func hasExpired(r *driver.Record) bool {
	return r.Status.InProgress && !r.TimeInfo.DispatchBy.IsZero() && r.TimeInfo.DispatchBy.Before(r.TimeInfo.Start)
}

// count adds a record that List gave to the stats.
func count(stats *amboy.QueueStats, r *driver.Record) {
	stats.Total++
	switch {
	case r.Status.Completed:
		stats.Completed++
		if r.RetryInfo.ShouldRetry() {
			stats.Retrying++
		}
	case r.Status.InProgress:
		stats.Running++
	default:
		stats.Pending++
		if r.Status.Hold == amboy.HoldBlocked {
			stats.Blocked++
		}
	}
}
