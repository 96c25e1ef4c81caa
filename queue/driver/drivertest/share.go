package drivertest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var shareRules = []rule{
	{"one process reads what another writes", shareSeen},
	{"a lease that another process recovered is lost", shareRecovered},
	{"controls apply to all processes", shareControl},
	{"the owner of a record learns of another process's Cancel", shareCancel},
	{"a duty has one owner in all processes", shareDuty},
	{"all processes share a mark", shareMark},
	{"all processes share notes", shareNotes},
}

var shareNotificationRules = []rule{
	{"a process is notified of changes by another", shareNotifies},
}

// share returns the same test with another driver on the same store.
func (f *fixture) share() *fixture {
	f.Helper()
	other := *f
	other.use(f.harness.Share(f.T, f.driver))
	return &other
}

// takingTurns returns the same test with two drivers on one store, which take the calls
// in turn.
func (f *fixture) takingTurns() *fixture {
	f.Helper()
	other := f.share()
	other.driver = &turns{drivers: []driver.Driver{f.driver, other.driver}}
	other.harness.Reopen = nil // it knows only the drivers that it opened
	return other
}

// takingTurns returns rules that are checked with two drivers on one store.
func takingTurns(rules []rule) []rule {
	var taking []rule
	for _, r := range rules {
		taking = append(taking, rule{r.name, func(f *fixture) { r.check(f.takingTurns()) }})
	}
	return taking
}

func shareSeen(f *fixture) {
	other := f.share()
	f.insert(spec{id: "a"}, spec{id: "b", edges: []string{"a"}})
	r := other.claimOne("a")
	f.hasState("a", amboy.StateRunning)
	f.end(r, amboy.StateFailed)
	assert.Equal(f, []string{"a"}, other.claimOne("b").Dependency.Failed)
	assert.Equal(f, 2, f.stats().Total)
	other.refusedAsDuplicate(spec{id: "a"})
}

func shareRecovered(f *fixture) {
	other := f.share()
	f.insert(spec{id: "job"})
	r := f.claimOne("job")
	require.Equal(f, 1, other.recoverEnded())
	f.refusesLease(r)
	again := other.tryClaim("other", time.Now(), 1).Records
	require.Len(f, again, 1)
	f.refusesLease(r)
}

func shareControl(f *fixture) {
	other := f.share()
	f.fill(f.queue, 0, 4)
	f.maxRunning(2)
	assert.Len(f, f.claim(1), 1)
	assert.Len(f, other.claim(9), 1)
	assert.Empty(f, f.claim(9))
	other.maxRunning(0)
	f.pause(true)
	assert.Empty(f, other.claim(9))
	f.pause(false)
	other.drain(true)
	require.ErrorIs(f, f.tryInsert(spec{id: "late"})[0], amboy.ErrQueueDraining)
	assert.Equal(f, driver.Control{Draining: true}, f.control(driver.ControlChange{}))
	assert.Len(f, other.claim(9), 2)
}

func shareCancel(f *fixture) {
	other := f.share()
	f.insert(spec{id: "job"})
	r := f.claimOne("job")
	other.cancel("job")
	assert.Equal(f, []driver.Lease{driver.LeaseOf(r)}, f.toCancel(owner))
	f.end(r, amboy.StateCanceled)
	assert.Empty(f, other.toCancel(owner))

	f.insert(spec{id: "left"})
	f.claimOne("left")
	other.cancel("left")
	assert.Equal(f, 1, other.recoverEnded(), "its owner has died")
	f.hasState("left", amboy.StateCanceled)
}

func shareDuty(f *fixture) {
	other := f.share()
	assert.True(f, f.takeDuty("duty", "a", 0, 2))
	assert.False(f, other.takeDuty("duty", "b", 1, 2))
	assert.True(f, other.takeDuty("duty", "b", 2, 2))
	assert.False(f, f.takeDuty("duty", "a", 3, 2))
}

func shareNotifies(f *fixture) {
	other := f.share()
	told := f.subscribe()
	told(func() { other.insert(spec{id: "job"}) })
	r := other.claimOne("job")
	told(func() { other.end(r, amboy.StateSucceeded) })
}

// turns is a driver that passes each call to the next of several drivers on one store.
type turns struct {
	drivers []driver.Driver
	calls   atomic.Uint64
}

func (t *turns) next() driver.Driver {
	return t.drivers[t.calls.Add(1)%uint64(len(t.drivers))]
}

func (t *turns) Features() driver.Features { return t.next().Features() }

func (t *turns) Insert(ctx context.Context, records []*driver.Record) ([]error, error) {
	return t.next().Insert(ctx, records)
}

func (t *turns) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	return t.next().Claim(ctx, req)
}

func (t *turns) Extend(ctx context.Context, leases []driver.Lease, leaseTime time.Duration) ([]driver.Lease, error) {
	return t.next().Extend(ctx, leases, leaseTime)
}

func (t *turns) Complete(ctx context.Context, completions []driver.Completion) ([]error, error) {
	return t.next().Complete(ctx, completions)
}

func (t *turns) Release(ctx context.Context, handBacks []driver.HandBack) ([]error, error) {
	return t.next().Release(ctx, handBacks)
}

func (t *turns) Retry(ctx context.Context, ended, next *driver.Record) error {
	return t.next().Retry(ctx, ended, next)
}

func (t *turns) EndRetry(ctx context.Context, ended *driver.Record) error {
	return t.next().EndRetry(ctx, ended)
}

func (t *turns) Save(ctx context.Context, r *driver.Record) error { return t.next().Save(ctx, r) }

func (t *turns) SetProgress(ctx context.Context, lease driver.Lease, progress driver.Progress) error {
	return t.next().SetProgress(ctx, lease, progress)
}

func (t *turns) CancelRequests(ctx context.Context, owner string) ([]driver.Lease, error) {
	return t.next().CancelRequests(ctx, owner)
}

func (t *turns) Get(ctx context.Context, queue, id string) (*driver.Record, error) {
	return t.next().Get(ctx, queue, id)
}

func (t *turns) Attempts(ctx context.Context, queue, id string) ([]*driver.Record, error) {
	return t.next().Attempts(ctx, queue, id)
}

func (t *turns) Find(ctx context.Context, q driver.Query, page driver.PageRequest) (driver.Page, error) {
	return t.next().Find(ctx, q, page)
}

func (t *turns) Count(ctx context.Context, q driver.Query, limit int) (int, error) {
	return t.next().Count(ctx, q, limit)
}

func (t *turns) Act(ctx context.Context, req driver.ActRequest) (driver.Acted, error) {
	return t.next().Act(ctx, req)
}

func (t *turns) Stats(ctx context.Context, queue string) (amboy.QueueStats, error) {
	return t.next().Stats(ctx, queue)
}

func (t *turns) Queues(ctx context.Context, req driver.QueueRequest) ([]driver.QueueInfo, error) {
	return t.next().Queues(ctx, req)
}

func (t *turns) SumQueues(ctx context.Context, busiest int) (driver.QueueTotals, error) {
	return t.next().SumQueues(ctx, busiest)
}

func (t *turns) CountTypes(ctx context.Context) ([]driver.TypeCount, error) {
	return t.next().CountTypes(ctx)
}

func (t *turns) OldestReady(ctx context.Context, queues []string, now time.Time) (map[string]time.Time, error) {
	return t.next().OldestReady(ctx, queues, now)
}

func (t *turns) Work(ctx context.Context, now time.Time) (driver.Work, error) {
	return t.next().Work(ctx, now)
}

func (t *turns) Unfinished(ctx context.Context) ([]string, error) { return t.next().Unfinished(ctx) }

func (t *turns) Control(ctx context.Context, queue string, change driver.ControlChange) (driver.Control, error) {
	return t.next().Control(ctx, queue, change)
}

func (t *turns) RecoverStale(ctx context.Context, keep ...driver.Lease) (int, error) {
	return t.next().RecoverStale(ctx, keep...)
}

func (t *turns) Forget(ctx context.Context, now time.Time, limit int) (int, error) {
	return t.next().Forget(ctx, now, limit)
}

func (t *turns) Prune(ctx context.Context, req driver.PruneRequest) (int, error) {
	return t.next().Prune(ctx, req)
}

func (t *turns) TakeDuty(ctx context.Context, duty driver.Duty, now time.Time) (bool, error) {
	return t.next().TakeDuty(ctx, duty, now)
}

func (t *turns) Mark(ctx context.Context, queue, name string, at time.Time) (time.Time, error) {
	return t.next().Mark(ctx, queue, name, at)
}

func (t *turns) Subscribe(notify func(driver.Change)) (cancel func()) {
	return t.next().Subscribe(notify)
}

// Close does nothing: the fixture closes the drivers.
func (t *turns) Close(context.Context) error { return nil }

func (t *turns) Keep(ctx context.Context, notes ...driver.Note) error {
	return t.next().Keep(ctx, notes...)
}

func (t *turns) KeepNew(ctx context.Context, note driver.Note, now time.Time) (driver.Note, bool, error) {
	return t.next().KeepNew(ctx, note, now)
}

func (t *turns) Replace(ctx context.Context, note driver.Note, old []byte) (bool, error) {
	return t.next().Replace(ctx, note, old)
}

func (t *turns) Notes(ctx context.Context, req driver.NoteRequest) ([]driver.Note, error) {
	return t.next().Notes(ctx, req)
}

func (t *turns) Drop(ctx context.Context, kind string, keys ...string) error {
	return t.next().Drop(ctx, kind, keys...)
}
