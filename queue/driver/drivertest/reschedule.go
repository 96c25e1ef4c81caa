package drivertest

import (
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var runNowRules = []rule{
	{"a scheduled record becomes due", runNowScheduled},
	{"a record that was handed back until a time becomes due", runNowPostponed},
	{"the record still waits for its scopes", runNowScopes},
	{"the record expires as before", runNowExpires},
}

var rescheduleRules = []rule{
	{"a record waits for the new time", rescheduleLater},
	{"an earlier time counts, and so does the zero time", rescheduleEarlier},
	{"a record that was handed back waits only for the new time", reschedulePostponed},
	{"the record waits for its edges and scopes as before", rescheduleWaits},
}

func (f *fixture) runNow(ids ...string) {
	f.Helper()
	f.act(driver.Action{Kind: driver.RunNow}, ids...)
}

func runNowScheduled(f *fixture) {
	f.insert(
		spec{id: "job", waitUntil: f.after(5), priority: 1},
		spec{id: "other", waitUntil: f.after(5)},
		spec{id: "pending"},
	)
	f.runNow("job")
	f.hasState("job", amboy.StatePending)
	assert.False(f, f.get("job").TimeInfo.WaitUntil.After(time.Now()), "the record's time must be past")
	assert.Equal(f, []string{"job", "pending"}, jobIDs(f.claim(10)))
}

func runNowPostponed(f *fixture) {
	f.insert(spec{id: "job"})
	f.release(driver.HandBack{Lease: driver.LeaseOf(f.claimOne("job")), NotBefore: f.after(5), Reason: "the disk is full"})
	f.runNow("job")
	f.hasState("job", amboy.StatePending)
	assert.Empty(f, f.get("job").Status.Reason)
	f.claimOne("job")
}

func runNowScopes(f *fixture) {
	f.insert(spec{id: "holder", scopes: []string{"s"}})
	r := f.claimOne("holder")
	f.insert(spec{id: "job", scopes: []string{"s"}, waitUntil: f.after(5)})
	f.runNow("job")
	f.hasState("job", amboy.StateBlocked)
	assert.Empty(f, f.claim(10))
	f.end(r, amboy.StateSucceeded)
	f.claimOne("job")
}

func runNowExpires(f *fixture) {
	f.insert(spec{id: "job", waitUntil: f.after(2), dispatchBy: f.after(3)})
	f.runNow("job")
	assert.Equal(f, []string{"job"}, jobIDs(f.claimAt(4, 0).Records))
}

// reschedule sets the time of a job to some hours after the start.
func (f *fixture) reschedule(id string, hours float64) {
	f.Helper()
	f.act(driver.Action{Kind: driver.Reschedule, At: f.after(hours)}, id)
}

func rescheduleLater(f *fixture) {
	f.insert(spec{id: "job"}, spec{id: "scheduled", waitUntil: f.after(1)})
	f.reschedule("job", 2)
	f.reschedule("scheduled", 3)
	f.hasState("job", amboy.StateScheduled)
	assert.True(f, f.after(2).Equal(f.get("job").TimeInfo.WaitUntil))
	claimed := f.claimAt(1.5, 10)
	assert.Empty(f, claimed.Records)
	assert.WithinDuration(f, f.after(2), claimed.Next, time.Millisecond)
	assert.Equal(f, []string{"job"}, jobIDs(f.claimAt(2, 10).Records))
	assert.Equal(f, []string{"scheduled"}, jobIDs(f.claimAt(3, 10).Records))
}

func rescheduleEarlier(f *fixture) {
	f.insert(spec{id: "job", waitUntil: f.after(5)}, spec{id: "now", waitUntil: f.after(5)}, spec{id: "past", waitUntil: f.after(5)})
	f.reschedule("job", 1)
	f.reschedule("past", -1)
	f.act(driver.Action{Kind: driver.Reschedule}, "now")
	assert.Equal(f, []string{"now", "past"}, jobIDs(f.claim(10)))
	assert.Equal(f, []string{"job"}, jobIDs(f.claimAt(1, 10).Records))
}

func reschedulePostponed(f *fixture) {
	f.insert(spec{id: "sooner"}, spec{id: "later"})
	for _, r := range f.claim(2) {
		f.release(driver.HandBack{Lease: driver.LeaseOf(r), NotBefore: f.after(2), Reason: "the disk is full"})
	}
	f.reschedule("sooner", 1)
	f.reschedule("later", 3)
	f.hasState("sooner", amboy.StateScheduled)
	assert.Empty(f, f.get("sooner").Status.Reason)
	assert.Equal(f, []string{"sooner"}, jobIDs(f.claimAt(1, 10).Records))
	assert.Empty(f, f.claimAt(2, 10).Records)
	assert.Equal(f, []string{"later"}, jobIDs(f.claimAt(3, 10).Records))
}

func rescheduleWaits(f *fixture) {
	f.insert(spec{id: "holder", scopes: []string{"s"}})
	r := f.claimOne("holder")
	f.insert(spec{id: "edge", edges: []string{"holder"}}, spec{id: "scope", scopes: []string{"s"}})
	f.reschedule("edge", 1)
	f.reschedule("scope", 1)
	f.hasState("edge", amboy.StateBlocked)
	f.hasState("scope", amboy.StateScheduled)
	f.insert(spec{id: "other", scopes: []string{"t"}}, spec{id: "late", scopes: []string{"t"}})
	other := f.claimOne("other")
	f.reschedule("late", 1)
	f.end(r, amboy.StateSucceeded)
	f.hasState("edge", amboy.StateScheduled)
	assert.Empty(f, f.claimAt(0.5, 10).Records)
	assert.Equal(f, []string{"edge", "scope"}, jobIDs(f.claimAt(1, 10).Records))
	f.end(other, amboy.StateSucceeded)
	assert.Equal(f, []string{"late"}, jobIDs(f.claimAt(1, 10).Records))
}
