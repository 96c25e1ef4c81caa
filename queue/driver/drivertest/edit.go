package drivertest

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var editRules = []rule{
	{"body, priority and time change in one step, and nothing else", editFields},
	{"an edit of a version that has changed since is skipped", editStale},
	{"a copy that was read before an edit can't be claimed or saved", editBeforeClaim},
	{"a parked record stays parked, for its reason, and waits for the new time then", editParked},
	{"a record that was handed back until a time waits for that time as before", editPostponed},
}

// edit edits the job "job" as it is now.
func (f *fixture) edit(to driver.EditedFields) {
	f.Helper()
	to.Count = f.get("job").Status.ModificationCount
	f.act(driver.Action{Kind: driver.Edit, Edit: &to}, "job")
}

// noteIn returns the note in the body of a job.
func (f *fixture) noteIn(r *driver.Record) string {
	f.Helper()
	j, err := r.Resolve(amboy.JSON)
	require.NoError(f, err)
	return j.(*testJob).Note
}

func editFields(f *fixture) {
	f.insert(spec{id: "other", priority: 2}, spec{id: "job", note: "before", tags: []string{"x"}, scopes: []string{"s"}, retryable: true})
	want := f.get("job")
	body := f.record(spec{id: "job", note: "after", retryable: true}).Job
	f.edit(driver.EditedFields{Body: &body, Priority: new(3), WaitUntil: new(f.after(2))})
	f.consistent()
	got := f.get("job")
	assert.Equal(f, "after", f.noteIn(got))
	f.hasState("job", amboy.StateScheduled)
	want.Job, want.Priority, want.TimeInfo.WaitUntil = body, 3, f.after(2)
	want.Status.ModificationCount++
	f.same(want, got)

	assert.Equal(f, []string{"other"}, jobIDs(f.claimAt(1, 10).Records))
	f.edit(driver.EditedFields{WaitUntil: new(time.Time{})})
	assert.Equal(f, "after", f.noteIn(f.claimOne("job")))
}

func editStale(f *fixture) {
	f.insert(spec{id: "job", note: "stored"})
	body := f.record(spec{id: "job", note: "stale"}).Job
	stale := driver.Action{Kind: driver.Edit, Edit: &driver.EditedFields{Count: f.get("job").Status.ModificationCount, Body: &body}}
	f.edit(driver.EditedFields{Priority: new(1)})
	require.False(f, f.tryAct(stale, "job"), "edited since")
	r := f.claimOne("job")
	assert.Equal(f, "stored", f.noteIn(r))
	stale.Edit.Count = r.Status.ModificationCount
	require.False(f, f.tryAct(stale, "job"), "it runs")
	f.release(driver.HandBack{Lease: driver.LeaseOf(r)})
	assert.Equal(f, "stored", f.noteIn(f.get("job")))
}

func editBeforeClaim(f *fixture) {
	f.insert(spec{id: "job", note: "before"})
	stale := f.get("job")
	body := f.record(spec{id: "job", note: "after"}).Job
	f.edit(driver.EditedFields{Body: &body})
	require.ErrorIs(f, f.driver.Save(f.ctx, stale), driver.ErrLeaseLost)
	assert.Equal(f, "after", f.noteIn(f.claimOne("job")))
}

func editParked(f *fixture) {
	f.insert(spec{id: "job", note: "before"})
	f.act(driver.Action{Kind: driver.Park, Reason: "wrong customer"}, "job")
	body := f.record(spec{id: "job", note: "after"}).Job
	f.edit(driver.EditedFields{Body: &body, Priority: new(4), WaitUntil: new(f.after(2))})
	f.hasState("job", amboy.StateParked)
	assert.Equal(f, "wrong customer", f.get("job").Status.Reason)
	f.act(driver.Action{Kind: driver.Unpark}, "job")
	f.hasState("job", amboy.StateScheduled)
	assert.Empty(f, f.claimAt(1, 10).Records)
	claimed := f.claimAt(2, 10).Records
	require.Equal(f, []string{"job"}, jobIDs(claimed))
	assert.Equal(f, "after", f.noteIn(claimed[0]))
	assert.Equal(f, 4, claimed[0].Priority)
}

func editPostponed(f *fixture) {
	f.insert(spec{id: "job"})
	f.release(driver.HandBack{Lease: driver.LeaseOf(f.claimOne("job")), NotBefore: f.after(2), Reason: "the disk is full"})
	f.edit(driver.EditedFields{Priority: new(1)})
	assert.Equal(f, "the disk is full", f.get("job").Status.Reason)
	assert.Empty(f, f.claimAt(1, 10).Records)
	assert.Equal(f, []string{"job"}, jobIDs(f.claimAt(2, 10).Records))
}
