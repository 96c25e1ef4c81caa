package drivertest

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var saveRules = []rule{
	{"the content is replaced", saveContent},
	{"nothing else is replaced", saveNothingElse},
	{"a running record stays under its lease", saveWhileRunning},
	{"a stale copy is refused", saveStale},
	{"a copy that was relocked since it was read stores its lock", saveRelocked},
	{"renewing a lease does not make a copy stale", saveAfterExtend},
	{"an unknown record is not found", saveUnknown},
}

func saveContent(f *fixture) {
	f.insert(spec{id: "job", note: "before", retryable: true})
	r := f.record(spec{id: "job", note: "after", retryable: true})
	r.Status.ErrorCount, r.Status.Errors = 1, []string{"late"}
	r.Status.Attempts = []amboy.AttemptError{{Attempt: 0, Error: "late"}}
	r.Status.DroppedErrors = 2
	r.RetryInfo.MaxAttempts, r.RetryInfo.WaitUntil, r.RetryInfo.DispatchBy = 7, time.Minute, time.Hour
	require.NoError(f, f.driver.Save(f.ctx, r))
	f.consistent()

	got := f.get("job")
	j, err := got.Resolve(amboy.JSON)
	require.NoError(f, err)
	assert.Equal(f, "after", j.(*testJob).Note)
	assert.Equal(f, 1, got.Status.ErrorCount)
	assert.Equal(f, []string{"late"}, got.Status.Errors)
	require.Len(f, got.Status.Attempts, 1)
	assert.Equal(f, "late", got.Status.Attempts[0].Error)
	assert.Equal(f, 2, got.Status.DroppedErrors)
	assert.Equal(f, r.RetryInfo, got.RetryInfo)

	r.Version++ // the body was upgraded when it was read
	require.NoError(f, f.driver.Save(f.ctx, r))
	assert.Equal(f, r.Version, f.get("job").Version)
}

func saveNothingElse(f *fixture) {
	f.insert(spec{id: "edge", priority: 1})
	f.end(f.claimOne("edge"), amboy.StateSucceeded)
	f.insert(spec{
		id:            "job",
		scopes:        []string{"s"},
		enqueueScopes: []string{"s"},
		waitUntil:     f.after(1),
		edges:         []string{"edge"},
		tags:          []string{"x"},
		uniqueKey:     "key",
	})
	want := f.get("job")
	r := *want
	r.Status.ModificationTime = f.after(1)
	r.Status.InProgress, r.Status.Completed = true, true
	r.Status.Outcome, r.Status.Hold, r.Status.Reason = amboy.OutcomeCanceled, amboy.HoldParked, "why not"
	r.TimeInfo = amboy.JobTimeInfo{DispatchBy: f.after(2)}
	r.Priority, r.Scopes, r.EnqueueScopes, r.RequiredScopes = 5, []string{"t"}, []string{"t"}, []string{"t"}
	r.RetryInfo.NeedsRetry, r.RetryInfo.CurrentAttempt = true, 3
	r.Tags, r.UniqueKey, r.UniqueUntil, r.Dependency = []string{"y"}, "other", amboy.UniqueUntilFailed, nil
	r.Metadata = map[string]string{"from": "elsewhere"}
	want.Metadata = r.Metadata // metadata is content
	progress := f.progress(1, "done")
	r.Progress, r.Result, r.ForgetAt, r.CancelRequested = &progress, f.body("result"), f.after(1), true
	require.NoError(f, f.driver.Save(f.ctx, &r))
	f.same(want, f.get("job"))
	f.insert(spec{id: "t", scopes: []string{"t"}, enqueueScopes: []string{"t"}, uniqueKey: "other"})
	assert.Equal(f, []string{"job", "t"}, jobIDs(f.claimAt(3, 10).Records))
}

func saveWhileRunning(f *fixture) {
	f.insert(spec{id: "job"})
	r := f.claimOne("job")
	require.NoError(f, f.driver.Save(f.ctx, f.under(r, spec{id: "job", note: "half done"})))
	f.hasState("job", amboy.StateRunning)
	assert.Equal(f, driver.LeaseOf(r), driver.LeaseOf(f.get("job")))
	f.end(r, amboy.StateSucceeded)
	require.NoError(f, f.driver.Save(f.ctx, f.under(f.get("job"), spec{id: "job", note: "done"})))
	f.hasState("job", amboy.StateSucceeded)
}

// under returns a copy of a record that shows the lease of another copy.
func (f *fixture) under(r *driver.Record, s spec) *driver.Record {
	saved := f.record(s)
	driver.CopyLock(saved, r)
	return saved
}

func saveStale(f *fixture) {
	f.insert(spec{id: "job", note: "stored"})
	pending := f.get("job")
	first := f.claimOne("job")
	refused := func(stale *driver.Record, why string) {
		f.Helper()
		want := f.get("job")
		err := f.driver.Save(f.ctx, f.under(stale, spec{id: "job", note: "stale"}))
		require.ErrorIs(f, err, driver.ErrLeaseLost, why)
		f.same(want, f.get("job"))
	}
	refused(pending, "claimed since")
	other := f.under(first, spec{id: "job"})
	other.Status.Owner = "another owner"
	refused(other, "run by another owner")
	other.Status.ModificationCount++
	refused(other, "run by another owner, whatever the count")
	f.release(driver.HandBack{Lease: driver.LeaseOf(first)})
	refused(first, "handed back since")
	second := f.claimOne("job")
	refused(first, "claimed again since")
	f.end(second, amboy.StateSucceeded)
	refused(first, "ended since")
}

func saveRelocked(f *fixture) {
	f.insert(spec{id: "job"})
	locked := f.get("job")
	stale := *locked
	locked.Status.Owner, locked.Status.ModificationCount, locked.Status.ModificationTime = "me", 1, f.after(0)
	require.NoError(f, f.driver.Save(f.ctx, locked))
	f.consistent()
	assert.Equal(f, driver.LeaseOf(locked), driver.LeaseOf(f.get("job")))
	require.ErrorIs(f, f.driver.Save(f.ctx, &stale), driver.ErrLeaseLost)

	r := f.claimOne("job")
	lost := driver.LeaseOf(r)
	for _, hours := range []float64{8, -8} {
		r.Status.ModificationCount++
		r.Status.ModificationTime = f.after(hours) // by a clock that is wrong
		f.elapse(leaseTime / 2)
		require.NoError(f, f.driver.Save(f.ctx, r))
		f.consistent()
		f.hasState("job", amboy.StateRunning)
		f.elapse(leaseTime - time.Minute)
		assert.Zero(f, f.recover(), "the lease is as long as before")
		assert.False(f, f.tryExtend(driver.LeaseOf(r)))
	}
	assert.True(f, f.tryExtend(lost), "the lock replaced the lease")
	f.end(r, amboy.StateSucceeded)
}

func saveAfterExtend(f *fixture) {
	f.insert(spec{id: "job"})
	r := f.claimOne("job")
	require.False(f, f.tryExtend(driver.LeaseOf(r)))
	extended := f.get("job").Status.ModificationTime
	r.Status.ModificationTime = f.after(-1)
	require.NoError(f, f.driver.Save(f.ctx, r))
	assert.True(f, f.get("job").Status.ModificationTime.Equal(extended), "the copy's older time is not stored")
}

func saveUnknown(f *fixture) {
	err := f.driver.Save(f.ctx, f.record(spec{id: "unknown"}))
	require.True(f, amboy.IsJobNotFoundError(err), "the error is %v", err)
	assert.Empty(f, f.list())
}
