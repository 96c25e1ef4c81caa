package drivertest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var deleteRules = []rule{
	{"the record is removed and counted", deleteRemoves},
	{"its ID is free, and new jobs can't depend on it", deleteFrees},
	{"all attempts of a job can be deleted", deleteAttempts},
	{"dependents are not changed", deleteLeavesDependents},
}

func (f *fixture) delete(ids ...string) {
	f.Helper()
	f.act(driver.Action{Kind: driver.Delete}, ids...)
}

func deleteRemoves(f *fixture) {
	f.insert(spec{id: "job"}, spec{id: "other"})
	f.end(f.claimOne("job"), amboy.StateSucceeded)
	f.delete("job")
	f.missing("job")
	assert.Equal(f, []string{"other"}, jobIDs(f.list()))
	assert.Equal(f, amboy.QueueStats{Total: 2, Completed: 1, Pending: 1}.String(), f.stats().String())
	err := f.driver.Save(f.ctx, f.record(spec{id: "job"}))
	require.True(f, amboy.IsJobNotFoundError(err), "the error is %v", err)
	n, err := f.driver.Count(f.ctx, driver.Query{ID: "job"}, 10)
	require.NoError(f, err)
	assert.Zero(f, n)
}

func deleteFrees(f *fixture) {
	f.insert(spec{id: "job", scopes: []string{"s"}, enqueueScopes: []string{"s"}, uniqueKey: "key", uniqueUntil: amboy.UniqueUntilForgotten})
	f.end(f.claimOne("job"), amboy.StateSucceeded)
	f.delete("job")
	var invalid *amboy.InvalidJobError
	require.ErrorAs(f, f.tryInsert(spec{id: "dependent", edges: []string{"job"}})[0], &invalid)
	f.insert(spec{id: "job", scopes: []string{"s"}, enqueueScopes: []string{"s"}, uniqueKey: "key"})
	f.claimOne("job")
}

func deleteAttempts(f *fixture) {
	f.retry(f.retrying(spec{id: "job"}))
	running := f.claimOne("job")
	acted := f.actOn(driver.Query{ID: "job"}, driver.Action{Kind: driver.Delete})
	assert.Equal(f, driver.Acted{Done: 1, Skipped: 1}, acted)
	assert.Len(f, f.attempts("job"), 1)
	f.refusedAsDuplicate(spec{id: "job", retryable: true})
	f.end(running, amboy.StateSucceeded)
	assert.Equal(f, driver.Acted{Done: 1}, f.actOn(driver.Query{ID: "job"}, driver.Action{Kind: driver.Delete}))
	f.missing("job")
	f.insert(spec{id: "job", retryable: true})
	assert.Equal(f, attemptName(f.queue, 0), f.claimOne("job").Name)
}

func deleteLeavesDependents(f *fixture) {
	f.insert(spec{id: "good"}, spec{id: "bad"}, spec{id: "open"})
	running := f.claim(3)
	f.insert(spec{id: "job", edges: []string{"good", "bad", "open"}})
	f.end(running[0], amboy.StateSucceeded)
	f.end(running[1], amboy.StateFailed)
	f.delete("good", "bad")
	f.hasState("job", amboy.StateBlocked)
	f.end(running[2], amboy.StateSucceeded)
	assert.Equal(f, []string{"bad"}, f.claimOne("job").Dependency.Failed)
}
