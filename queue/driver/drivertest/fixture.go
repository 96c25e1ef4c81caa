package drivertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// patience bounds each test, so that a driver that hangs fails it.
const patience = 2 * time.Minute

// owner is the default owner of claims.
const owner = "owner"

// leaseTime is the default length of leases.
const leaseTime = 30 * time.Minute

// queueName is the default queue of a test.
const queueName = "queue"

// fixture is one test on an empty driver. Its calls must succeed, except those that
// return an error. After each call it checks that the driver's answers agree with each
// other.
type fixture struct {
	*testing.T
	ctx     context.Context
	giveUp  context.CancelFunc
	harness Harness
	driver  driver.Driver
	// queue is the queue of calls that name no other.
	queue string
	// start is when the test began, with the precision that every store keeps. Tests that
	// need the future claim at a time some hours after it.
	start time.Time
	// removed counts the records of each queue that were deleted or forgotten.
	removed map[string]int
	// unchecked disables the check after each call, for tests with their own checks.
	unchecked bool
}

func newFixture(t *testing.T, h Harness) *fixture {
	t.Helper()
	f := &fixture{
		T:       t,
		harness: h,
		queue:   queueName,
		start:   wholeMillisecond(time.Now()),
		removed: map[string]int{},
	}
	f.renew()
	t.Cleanup(func() { f.giveUp() })
	f.use(h.Open(t))
	return f
}

// renew begins the patience of the test again, for a test of many calls each of which may take some time.
func (f *fixture) renew() {
	if f.giveUp != nil {
		f.giveUp()
	}
	f.ctx, f.giveUp = context.WithTimeout(context.Background(), patience)
}

// use directs further calls to a driver and closes it at the end of the test.
func (f *fixture) use(d driver.Driver) {
	f.Helper()
	require.NotNil(f, d, "the harness must return a driver")
	f.Cleanup(func() { assert.NoError(f, d.Close(f.ctx), "closing the driver") })
	f.driver = d
}

// in returns the same test on another queue of the store.
func (f *fixture) in(queue string) *fixture {
	other := *f
	other.queue = queue
	return &other
}

// after returns a time some hours after the start of the test.
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
	claimed, err := f.driver.Claim(f.ctx, f.request(by, at, limit))
	require.NoError(f, err)
	f.consistent()
	return claimed
}

// request returns a request for records of the test's queue.
func (f *fixture) request(by string, at time.Time, limit int) driver.ClaimRequest {
	return driver.ClaimRequest{
		Owner:     by,
		Queues:    []driver.Demand{{Queue: f.queue, Limit: limit}},
		Limit:     limit,
		Now:       at,
		LeaseTime: leaseTime,
	}
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

// claimOne claims the first record, which must be the one with the ID.
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

// end ends the attempt of a claimed record in a state, and returns the written record.
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

func (f *fixture) tryExtend(l driver.Lease) (lost bool) {
	f.Helper()
	leases, err := f.driver.Extend(f.ctx, []driver.Lease{l}, leaseTime)
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

// recover recovers leases. If a survey finds nothing to recover, nothing may change.
func (f *fixture) recover() int {
	f.Helper()
	unchanged := func() {}
	if surveyor, ok := f.drivers()[0].(driver.Surveyor); ok {
		_, staleIn, err := surveyor.Survey(f.ctx, time.Now(), time.Minute)
		require.NoError(f, err)
		if staleIn > 0 {
			unchanged = f.unchanged()
		}
	}
	n, err := f.driver.RecoverStale(f.ctx)
	require.NoError(f, err)
	unchanged()
	f.consistent()
	return n
}

// elapse lets time pass for leases. A driver that must see a lease for its whole length
// sees it first, so no lease may have ended before.
func (f *fixture) elapse(by time.Duration) {
	f.Helper()
	for _, d := range f.drivers() {
		n, err := d.RecoverStale(f.ctx)
		require.NoError(f, err)
		require.Zero(f, n, "leases that ended before")
	}
	f.elapseUnseen(by)
}

// elapseUnseen is elapse for leases that the drivers have seen before.
func (f *fixture) elapseUnseen(by time.Duration) { f.harness.Elapse(f.T, f.drivers()[0], by) }

// drivers returns the drivers that take the calls.
func (f *fixture) drivers() []driver.Driver {
	if t, ok := f.driver.(*turns); ok {
		return t.drivers
	}
	return []driver.Driver{f.driver}
}

// endLeases lets leases of length leaseTime end.
func (f *fixture) endLeases() {
	f.Helper()
	f.elapse(leaseTime + time.Second)
}

// recoverEnded lets leases of length leaseTime end and recovers them.
func (f *fixture) recoverEnded() int {
	f.Helper()
	f.endLeases()
	return f.recover()
}

func (f *fixture) get(id string) *driver.Record {
	f.Helper()
	r, err := f.driver.Get(f.ctx, f.queue, id)
	require.NoError(f, err)
	require.Equal(f, id, r.JobID())
	return r
}

// attempts returns the attempts of a job.
func (f *fixture) attempts(id string) []*driver.Record {
	f.Helper()
	attempts, err := f.driver.Attempts(f.ctx, f.queue, id)
	require.NoError(f, err)
	return attempts
}

// find returns all records that a query selects, page by page.
func (f *fixture) find(q driver.Query) []*driver.Record {
	f.Helper()
	var records []*driver.Record
	page := driver.PageRequest{Limit: 100}
	for {
		got, err := f.driver.Find(f.ctx, q, page)
		require.NoError(f, err)
		require.LessOrEqual(f, len(got.Records), page.Limit)
		records = append(records, got.Records...)
		if got.Next == "" {
			return records
		}
		page.After = got.Next
	}
}

// list returns the records of the test's queue that are in one of the states.
func (f *fixture) list(states ...amboy.JobState) []*driver.Record {
	f.Helper()
	return f.find(driver.Query{Queues: []string{f.queue}, States: states})
}

func (f *fixture) stats() amboy.QueueStats {
	f.Helper()
	stats, err := f.driver.Stats(f.ctx, f.queue)
	require.NoError(f, err)
	return stats
}

// tryAct acts on the latest attempt of a job and reports whether the action was done.
func (f *fixture) tryAct(a driver.Action, id string) bool {
	f.Helper()
	acted := f.actOn(driver.Query{Queues: []string{f.queue}, ID: id, Latest: true}, a)
	require.Equal(f, 1, acted.Done+acted.Skipped, "job %q must be selected", id)
	return acted.Done == 1
}

func (f *fixture) act(a driver.Action, ids ...string) {
	f.Helper()
	for _, id := range ids {
		require.True(f, f.tryAct(a, id), "%s job %q", a.Kind, id)
	}
}

// actOn acts on all records that a query selects.
func (f *fixture) actOn(q driver.Query, a driver.Action) driver.Acted {
	f.Helper()
	return f.actInPages(driver.ActRequest{Query: q, Action: a, Limit: 100})
}

// actInPages acts on a limited number of records at once until there are no more. It
// requires that no step exceeds the limit and that each step advances.
func (f *fixture) actInPages(req driver.ActRequest) driver.Acted {
	f.Helper()
	var all driver.Acted
	act := func() int {
		f.Helper()
		for {
			acted, err := f.driver.Act(f.ctx, req)
			require.NoError(f, err)
			require.LessOrEqual(f, acted.Done+acted.Skipped, req.Limit)
			all.Done += acted.Done
			all.Skipped += acted.Skipped
			if acted.Next == "" {
				return all.Done
			}
			require.NotEqual(f, req.After, acted.Next, "the cursor must advance")
			req.After = acted.Next
		}
	}
	if req.Action.Kind == driver.Delete && !req.DryRun {
		f.removing(act)
		return all
	}
	act()
	f.consistent()
	return all
}

// forget returns how many records were removed.
func (f *fixture) forget(at time.Time, limit int) int {
	f.Helper()
	return f.removing(func() int {
		n, err := f.driver.Forget(f.ctx, at, limit)
		require.NoError(f, err)
		return n
	})
}

// removing makes a call that returns how many records it removes, and checks the number.
func (f *fixture) removing(call func() int) int {
	f.Helper()
	before := countByQueue(f.find(driver.Query{}))
	n := call()
	after := countByQueue(f.find(driver.Query{}))
	gone := 0
	for queue := range before {
		f.removed[queue] += before[queue] - after[queue]
		gone += before[queue] - after[queue]
	}
	require.Equal(f, gone, n, "the number of removed records")
	f.consistent()
	return n
}

func (f *fixture) control(change driver.ControlChange) driver.Control {
	f.Helper()
	control, err := f.driver.Control(f.ctx, f.queue, change)
	require.NoError(f, err)
	f.consistent()
	return control
}

// queues describes the queues of the store in a comparable form.
func (f *fixture) queues() []string {
	f.Helper()
	infos, err := f.driver.Queues(f.ctx, driver.QueueRequest{})
	require.NoError(f, err)
	described := make([]string, len(infos))
	for i, info := range infos {
		described[i] = fmt.Sprintf("%q %+v %s", info.Name, info.Control, info.Stats)
	}
	return described
}

// missing requires that no job has an ID.
func (f *fixture) missing(id string) {
	f.Helper()
	_, err := f.driver.Get(f.ctx, f.queue, id)
	require.True(f, amboy.IsJobNotFoundError(err), "the error is %v", err)
}

// hasState requires that Get shows a job in a state.
func (f *fixture) hasState(id string, state amboy.JobState) {
	f.Helper()
	r := f.get(id)
	require.Equal(f, state, stateOf(r), "the state of job %q, whose status is %+v", id, r.Status)
}

// lost requires that an error wraps ErrLeaseLost.
func (f *fixture) lost(err error) {
	f.Helper()
	require.ErrorIs(f, err, driver.ErrLeaseLost)
}
