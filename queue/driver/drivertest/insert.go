package drivertest

import (
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
)

var insertRules = []rule{
	{"a transaction of another store is refused", insertForeign},
	{"records are stored as given", insertStores},
	{"sealed bodies are stored as given, and replaced", insertSealed},
	{"the record stays the caller's own", insertCopies},
	{"records keep their order", insertKeepsOrder},
	{"inserting no records is no error", insertNothing},
	{"an ID can be taken once", insertDuplicate},
	{"an ID is taken by every attempt", insertDuplicateOfRetryable},
	{"an ID stays taken when the job has ended", insertDuplicateOfEnded},
	{"the first of two records with one ID in one call is added", insertDuplicateInCall},
	{"the error of a duplicate has the existing job and the reason", insertDuplicateErrors},
	{"a refused record does not affect the others", insertRefusesOne},
	{"a refused record leaves nothing behind", insertRefusedLeavesNothing},
	{"a job with the longest ID, in a queue with a long name, behaves like any other", insertLongestID},
	{"an ended record is stored as it is", insertEnded},
	{"a running record is stored under its lease", insertRunning},
	{"a record that awaits its retry is stored as it is", insertRetrying},
}

func insertStores(f *fixture) {
	f.insert(spec{id: "target", priority: 1})
	given := f.record(spec{
		id:            "job",
		note:          "content",
		priority:      7,
		waitUntil:     f.after(1),
		dispatchBy:    f.after(2),
		scopes:        []string{"a", "b"},
		enqueueScopes: []string{"b"},
		edges:         []string{"target"},
		retryable:     true,
		tags:          []string{"x", "y"},
		uniqueKey:     "key",
		uniqueUntil:   amboy.UniqueUntilFailed,
	})
	given.RetryInfo.MaxAttempts = 3
	given.Metadata = map[string]string{"from": "elsewhere", "empty": ""}
	errs, err := f.driver.Insert(f.ctx, []*driver.Record{given})
	require.NoError(f, err)
	require.Equal(f, []error{nil}, errs)

	got := f.get("job")
	assert.Equal(f, attemptName(f.queue, 0), got.Name)
	assert.Equal(f, f.queue, got.Group)
	assert.Equal(f, given.Type, got.Type)
	assert.Equal(f, given.Version, got.Version)
	assert.Equal(f, 7, got.Priority)
	assert.True(f, f.after(1).Equal(got.TimeInfo.WaitUntil), "wait-until is %s", got.TimeInfo.WaitUntil)
	assert.True(f, f.after(2).Equal(got.TimeInfo.DispatchBy), "dispatch-by is %s", got.TimeInfo.DispatchBy)
	assert.True(f, f.start.Equal(got.TimeInfo.Created), "created is %s", got.TimeInfo.Created)
	assert.ElementsMatch(f, []string{"a", "b"}, got.RequiredScopes)
	assert.Equal(f, []string{"b"}, got.EnqueueScopes)
	assert.Equal(f, []string{"b"}, got.Scopes, "Insert takes the enqueue scopes")
	assert.Equal(f, []string{"target"}, got.Dependency.Edges)
	assert.Equal(f, given.RetryInfo, got.RetryInfo)
	assert.ElementsMatch(f, []string{"x", "y"}, got.Tags)
	assert.Equal(f, "key", got.UniqueKey)
	assert.Equal(f, amboy.UniqueUntilFailed, got.UniqueUntil)
	assert.Equal(f, map[string]string{"from": "elsewhere", "empty": ""}, got.Metadata)
	assert.Nil(f, got.Progress)
	assert.Nil(f, got.Result)
	assert.False(f, got.Status.InProgress)
	assert.False(f, got.Status.Completed)

	j, err := got.Resolve(amboy.JSON)
	require.NoError(f, err)
	assert.Equal(f, "content", j.(*testJob).Note)
}

func insertSealed(f *fixture) {
	sealed := func(content string) registry.Body { return registry.NewSealedBody([]byte(content + "\x00\xff")) }
	given := f.record(spec{id: "job"})
	given.Job = sealed("put")
	errs, err := f.driver.Insert(f.ctx, []*driver.Record{given})
	require.NoError(f, err)
	require.Equal(f, []error{nil}, errs)
	assert.Equal(f, sealed("put"), f.get("job").Job)

	r := f.claimOne("job")
	assert.Equal(f, sealed("put"), r.Job)
	r.Job = sealed("saved")
	require.NoError(f, f.driver.Save(f.ctx, r))
	assert.Equal(f, sealed("saved"), f.get("job").Job)

	e := ended(r, amboy.StateSucceeded)
	result := sealed("result")
	e.Job, e.Result = sealed("ended"), &result
	require.NoError(f, f.tryComplete(driver.LeaseOf(r), e))
	got := f.get("job")
	assert.Equal(f, sealed("ended"), got.Job)
	require.NotNil(f, got.Result)
	assert.Equal(f, result, *got.Result)
}

// longestID returns the longest ID of a job, with characters of URLs.
func longestID(begin string) string {
	id := begin + "://example.com/ü?q=%20&n="
	return id + strings.Repeat("0123456789", amboy.MaxIDLength)[:amboy.MaxIDLength-len(id)]
}

func insertLongestID(in *fixture) {
	f := in.in(strings.Repeat("tenant.", 64))
	first, job := longestID("first"), longestID("job")
	scope := []string{job}
	f.insert(spec{id: first})
	f.insert(spec{id: job, retryable: true, edges: []string{first}, scopes: scope, enqueueScopes: scope, uniqueKey: job})
	f.refusedAsDuplicate(spec{id: job})
	f.refusedForScope(spec{id: longestID("rival"), scopes: scope, enqueueScopes: scope})
	f.hasState(job, amboy.StateBlocked)
	f.end(f.claimOne(first), amboy.StateSucceeded)

	attempt := f.claimOne(job)
	f.setProgress(attempt, f.progress(0.5, "half"))
	assert.False(f, f.tryExtend(driver.LeaseOf(attempt)))
	f.retry(f.end(attempt, amboy.StateRetrying))
	second := f.claimOne(job)
	assert.Equal(f, 1, second.RetryInfo.CurrentAttempt)
	f.end(second, amboy.StateSucceeded)
	assert.Len(f, f.attempts(job), 2)

	var ids []string
	page := driver.PageRequest{Limit: 1}
	for {
		got, err := f.driver.Find(f.ctx, driver.Query{Queues: []string{f.queue}}, page)
		require.NoError(f, err)
		ids = append(ids, jobIDs(got.Records)...)
		page.After = got.Next
		if got.Next == "" {
			break
		}
	}
	assert.Equal(f, []string{first, job, job}, ids)
	last, err := f.driver.Mark(f.ctx, f.queue, job, f.after(1))
	require.NoError(f, err)
	assert.True(f, last.IsZero())
}

func insertCopies(f *fixture) {
	given := f.record(spec{id: "job", priority: 1})
	errs, err := f.driver.Insert(f.ctx, []*driver.Record{given})
	require.NoError(f, err)
	require.NoError(f, errs[0])
	unchanged := f.unchanged()
	given.Priority, given.Status.Completed, given.EnqueueScopes = 2, true, []string{"late"}
	unchanged()
	f.insert(spec{id: "other", scopes: []string{"late"}, enqueueScopes: []string{"late"}})
}

func insertKeepsOrder(f *fixture) {
	f.insert(spec{id: "c"}, spec{id: "a"})
	f.insert(spec{id: "d"}, spec{id: "b"})
	assert.Equal(f, []string{"c", "a", "d", "b"}, jobIDs(f.list()))
	assert.Equal(f, []string{"c", "a", "d", "b"}, jobIDs(f.claim(10)))
}

func insertNothing(f *fixture) {
	errs, err := f.driver.Insert(f.ctx, nil)
	require.NoError(f, err)
	assert.Empty(f, errs)
}

func (f *fixture) refusedAsDuplicate(s spec) {
	f.Helper()
	unchanged := f.unchanged()
	err := f.tryInsert(s)[0]
	require.True(f, amboy.IsDuplicateJobError(err), "the error is %v", err)
	require.False(f, amboy.IsDuplicateJobScopeError(err), "the error is %v", err)
	unchanged()
}

// sameDuplicate requires that an error is about the given duplicate.
func (f *fixture) sameDuplicate(want amboy.DuplicateJobError, err error) {
	f.Helper()
	var got *amboy.DuplicateJobError
	require.ErrorAs(f, err, &got)
	require.Equal(f, want, *got)
	require.True(f, amboy.IsDuplicateJobError(err))
	require.Equal(f, want.Reason == amboy.DuplicateEnqueueScope, amboy.IsDuplicateJobScopeError(err))
}

// duplicates are jobs that are refused besides those of insertHolders, and why.
var duplicates = []struct {
	spec     spec
	reason   amboy.DuplicateReason
	value    string
	existing string
}{
	{spec{id: "retryable"}, amboy.DuplicateID, "retryable", "retryable"},
	{spec{id: "attempt-0.retryable"}, amboy.DuplicateID, "attempt-0.retryable", "retryable"},
	{spec{id: "ended", uniqueKey: "key"}, amboy.DuplicateID, "ended", "ended"},
	{spec{id: "second", uniqueKey: "key"}, amboy.DuplicateUniqueKey, "key", "unique"},
	{spec{id: "third", scopes: []string{"free", "put"}, enqueueScopes: []string{"free", "put"}}, amboy.DuplicateEnqueueScope, "put", "holder"},
	{spec{id: "fourth", scopes: []string{"run"}, enqueueScopes: []string{"run"}}, amboy.DuplicateEnqueueScope, "run", "runs"},
	{spec{id: "fifth", scopes: []string{"put", "run"}, enqueueScopes: []string{"put", "run"}}, amboy.DuplicateEnqueueScope, "put", "holder"},
	{spec{id: "sixth", scopes: []string{"put"}, enqueueScopes: []string{"put"}, uniqueKey: "key"}, amboy.DuplicateUniqueKey, "key", "unique"},
	{spec{id: "unique", scopes: []string{"put"}, enqueueScopes: []string{"put"}, uniqueKey: "key"}, amboy.DuplicateID, "unique", "unique"},
	{spec{id: "retryable", retryable: true, scopes: []string{"put"}, enqueueScopes: []string{"put"}}, amboy.DuplicateID, "retryable", "retryable"},
}

// insertHolders adds jobs that are in the way of others.
func (f *fixture) insertHolders() {
	f.insert(spec{id: "ended"}, spec{id: "runs", scopes: []string{"run"}})
	f.end(f.claimOne("ended"), amboy.StateSucceeded)
	f.claimOne("runs")
	f.insert(
		spec{id: "retryable", retryable: true}, spec{id: "unique", uniqueKey: "key"},
		spec{id: "holder", scopes: []string{"put"}, enqueueScopes: []string{"put"}},
	)
}

func insertDuplicateErrors(f *fixture) {
	f.insertHolders()
	unchanged := f.unchanged()
	var all []spec
	for _, d := range duplicates {
		f.sameDuplicate(amboy.DuplicateJobError{JobID: d.spec.id, Reason: d.reason, Value: d.value, ExistingID: d.existing}, f.tryInsert(d.spec)[0])
		all = append(all, d.spec)
	}
	for i, err := range f.tryInsert(all...) {
		d := duplicates[i]
		f.sameDuplicate(amboy.DuplicateJobError{JobID: d.spec.id, Reason: d.reason, Value: d.value, ExistingID: d.existing}, err)
	}
	unchanged()
	errs := f.tryInsert(spec{id: "first", uniqueKey: "new"}, spec{id: "rival", uniqueKey: "new"})
	require.NoError(f, errs[0])
	f.sameDuplicate(amboy.DuplicateJobError{JobID: "rival", Reason: amboy.DuplicateUniqueKey, Value: "new", ExistingID: "first"}, errs[1])

	f.retry(f.end(f.claimOne("retryable"), amboy.StateRetrying))
	f.sameDuplicate(amboy.DuplicateJobError{JobID: "retryable", Reason: amboy.DuplicateID, Value: "retryable", ExistingID: "retryable"}, f.tryInsert(spec{id: "retryable"})[0])
}

func insertDuplicate(f *fixture) {
	f.insert(spec{id: "job"})
	f.refusedAsDuplicate(spec{id: "job", priority: 1})
	f.claimOne("job")
	f.refusedAsDuplicate(spec{id: "job"})
}

func insertDuplicateOfRetryable(f *fixture) {
	f.insert(spec{id: "plain"}, spec{id: "job", retryable: true, priority: 1})
	f.refusedAsDuplicate(spec{id: "job", retryable: true})
	f.refusedAsDuplicate(spec{id: "job"})
	f.refusedAsDuplicate(spec{id: "plain", retryable: true})
	f.refusedAsDuplicate(spec{id: "attempt-0.job"}) // the name of its record
	f.retry(f.end(f.claimOne("job"), amboy.StateRetrying))
	f.refusedAsDuplicate(spec{id: "job", retryable: true})
}

func insertDuplicateOfEnded(f *fixture) {
	f.insert(spec{id: "job"})
	f.end(f.claimOne("job"), amboy.StateSucceeded)
	f.refusedAsDuplicate(spec{id: "job"})
}

func insertDuplicateInCall(f *fixture) {
	errs := f.tryInsert(spec{id: "job", priority: 1}, spec{id: "job", priority: 2})
	require.NoError(f, errs[0])
	require.True(f, amboy.IsDuplicateJobError(errs[1]), "the error is %v", errs[1])
	assert.Equal(f, 1, f.get("job").Priority)
}

func insertRefusesOne(f *fixture) {
	f.insert(spec{id: "taken"})
	errs := f.tryInsert(spec{id: "before"}, spec{id: "taken"}, spec{id: "after"})
	require.NoError(f, errs[0])
	require.True(f, amboy.IsDuplicateJobError(errs[1]), "the error is %v", errs[1])
	require.NoError(f, errs[2])
	assert.Equal(f, []string{"taken", "before", "after"}, jobIDs(f.list()))
}

func insertRefusedLeavesNothing(f *fixture) {
	f.insert(spec{id: "holder", scopes: []string{"held"}, enqueueScopes: []string{"held"}})
	unchanged := f.unchanged()
	both := []string{"free", "held"}
	refused := spec{id: "job", scopes: both, enqueueScopes: both}
	require.True(f, amboy.IsDuplicateJobScopeError(f.tryInsert(refused)[0]))
	unchanged()
	_, err := f.driver.Get(f.ctx, f.queue, "job")
	require.True(f, amboy.IsJobNotFoundError(err), "the error is %v", err)

	f.insert(spec{id: "other", scopes: []string{"free"}, enqueueScopes: []string{"free"}})
	f.insert(spec{id: "job"}) // the ID is free too
}

func insertEnded(f *fixture) {
	states := []amboy.JobState{amboy.StateSucceeded, amboy.StateFailed, amboy.StateCanceled, amboy.StateExpired}
	for _, state := range states {
		r := ended(f.record(spec{
			id: string(state), scopes: []string{"run", "put"}, enqueueScopes: []string{"put"}, edges: []string{"unknown"},
			dispatchBy: f.after(1), tags: []string{"x"}, uniqueKey: "key",
		}), state)
		r.Status.Owner, r.Status.ModificationCount = owner, 3
		r.ForgetAt = f.after(5)
		require.Equal(f, []error{nil}, f.insertOf(r))
		f.hasState(string(state), state)
		got := f.get(string(state))
		r.Stamp = got.Stamp
		assert.Equal(f, driver.LeaseOf(r), driver.LeaseOf(got))
		assert.True(f, r.TimeInfo.End.Equal(got.TimeInfo.End))
		assert.Empty(f, got.Scopes)
		assert.Equal(f, []string{"put"}, got.EnqueueScopes)
		f.refusedAsDuplicate(spec{id: string(state)})
	}
	f.insert(spec{id: "job", edges: []string{"succeeded"}, scopes: []string{"put"}, enqueueScopes: []string{"put"}, uniqueKey: "key"})
	f.insert(spec{id: "dependent", edges: []string{"failed"}})
	assert.Equal(f, amboy.QueueStats{Total: 6, Pending: 2, Completed: 4}.String(), f.stats().String())
	claimed := f.claimAt(2, 10).Records
	require.Equal(f, []string{"job", "dependent"}, jobIDs(claimed))
	assert.Equal(f, []string{"failed"}, claimed[1].Dependency.Failed)
	f.end(claimed[0], amboy.StateSucceeded)
	f.act(driver.Action{Kind: driver.Restart}, "failed")
	f.hasState("failed", amboy.StatePending)
	assert.Equal(f, 3, f.forget(f.after(5), 10))

	r := ended(f.record(spec{id: "forgotten", uniqueKey: "kept", uniqueUntil: amboy.UniqueUntilForgotten}), amboy.StateFailed)
	require.Equal(f, []error{nil}, f.insertOf(r))
	f.refusedAsDuplicate(spec{id: "other", uniqueKey: "kept"})
}

func insertRunning(f *fixture) {
	running := func(s spec) *driver.Record {
		r := f.record(s)
		r.Status.InProgress, r.Status.Owner, r.Status.ModificationCount = true, "another owner", 3
		r.Status.ModificationTime, r.TimeInfo.Start = f.after(0), f.after(0)
		r.LeaseTime = 2 * time.Hour
		return r
	}
	r := running(spec{
		id: "job", scopes: []string{"run", "put"}, enqueueScopes: []string{"put"}, edges: []string{"unknown"},
		dispatchBy: f.after(1), uniqueKey: "key", uniqueUntil: amboy.UniqueUntilStarted, priority: 1,
	})
	require.Equal(f, []error{nil}, f.insertOf(r))
	f.hasState("job", amboy.StateRunning)
	got := f.get("job")
	r.Stamp = got.Stamp
	assert.Equal(f, driver.LeaseOf(r), driver.LeaseOf(got))
	assert.True(f, got.Status.ModificationTime.Equal(f.after(0)))
	assert.ElementsMatch(f, []string{"run", "put"}, got.Scopes)
	f.insert(spec{id: "same key", uniqueKey: "key"}, spec{id: "blocked", scopes: []string{"run"}})
	refusals := f.insertOf(running(spec{id: "same scope", scopes: []string{"run"}}))
	require.True(f, amboy.IsDuplicateJobScopeError(refusals[0]), "the error is %v", refusals[0])
	assert.Equal(f, amboy.QueueStats{Total: 3, Pending: 2, Running: 1, Blocked: 1}.String(), f.stats().String())
	claimed := f.claimAt(1.5, 10).Records
	require.Equal(f, []string{"same key"}, jobIDs(claimed))
	f.end(claimed[0], amboy.StateSucceeded)

	f.elapse(2*time.Hour - time.Minute)
	assert.Zero(f, f.recover())
	assert.False(f, f.tryExtend(driver.LeaseOf(r)))
	assert.Equal(f, 1, f.recoverEnded())
	f.hasState("job", amboy.StatePending)
	f.refusesLease(r)

	require.Equal(f, []error{nil}, f.insertOf(running(spec{id: "completed"})))
	f.end(f.get("completed"), amboy.StateSucceeded)
}

func insertRetrying(f *fixture) {
	r := ended(f.record(spec{id: "job", scopes: []string{"run", "put"}, enqueueScopes: []string{"put"}, retryable: true}), amboy.StateRetrying)
	require.Equal(f, []error{nil}, f.insertOf(r))
	f.hasState("job", amboy.StateRetrying)
	assert.Equal(f, []string{"put"}, f.get("job").Scopes)
	f.insert(spec{id: "free", scopes: []string{"run"}})
	require.Equal(f, []string{"free"}, jobIDs(f.claim(10)))
	f.retry(f.get("job"))
	f.hasState("job", amboy.StateBlocked)
}

// foreignTransaction is one that no driver knows.
type foreignTransaction struct{}

func insertForeign(f *fixture) {
	ctx := driver.WithTransaction(f.ctx, foreignTransaction{})
	_, err := f.driver.Insert(ctx, []*driver.Record{f.record(spec{id: "job"})})
	require.ErrorIs(f, err, driver.ErrForeignTransaction)
	f.missing("job")
}
