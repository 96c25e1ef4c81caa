package drivertest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var contextRules = []rule{
	{"a call with a canceled context fails and changes nothing", contextCanceled},
	{"a call with an expired context fails and changes nothing", contextExpired},
	{"a call whose context ends midway either succeeds or fails and changes nothing", contextMidway},
	{"items without an error are done even if the context ends midway", contextMidwayOfSeveral},
}

var closeRules = []rule{
	{"changes fail after Close", closeRefusesChanges},
	{"reads succeed or fail after Close", closeReads},
	{"Close may be called twice", closeTwice},
	{"Close may be called while other calls run", closeWhileCalled},
}

// call is a call on a driver that would succeed.
type call struct {
	name    string
	changes bool
	do      func(ctx context.Context) error
}

// every returns the errors of a call with several items as one, which is nil
// unless every item has one.
func every(errs []error, err error) error {
	if err != nil {
		return err
	}
	for _, failure := range errs {
		if failure == nil {
			return nil
		}
	}
	return errors.Join(errs...)
}

// errNothing is the error of a call that had something to do but did nothing.
var errNothing = errors.New("nothing was done")

// some returns errNothing if a call did nothing.
func some(n int, err error) error {
	if err == nil && n == 0 {
		return errNothing
	}
	return err
}

// calls puts jobs in the states that the calls need, and returns each call of
// driver.Driver except Features, Subscribe and Close. Each call has something to do,
// once.
func (f *fixture) calls() []call {
	f.Helper()
	f.endedAt("forget", amboy.StateSucceeded, f.after(1))
	retry, endRetry := f.retrying(spec{id: "retry"}), f.retrying(spec{id: "end retry"})
	f.insert(spec{id: "recover"})
	f.claimOne("recover")
	f.endLeases()
	f.insert(spec{id: "complete"}, spec{id: "extend"}, spec{id: "release"})
	running := f.claim(3)
	require.Len(f, running, 3)
	f.insert(spec{id: "pending"}, spec{id: "act", waitUntil: f.after(5)})
	f.keep(f.note("drop", 1))
	yes := true
	d, inserted := f.driver, f.record(spec{id: "insert"})
	saved := f.under(running[1], spec{id: running[1].JobID(), note: "saved"})
	all := []call{
		{"Insert", true, func(ctx context.Context) error {
			return every(d.Insert(ctx, []*driver.Record{inserted}))
		}},
		{"Claim", true, func(ctx context.Context) error {
			claimed, err := d.Claim(ctx, f.request(owner, time.Now(), 1))
			return some(len(claimed.Records), err)
		}},
		{"Extend", true, func(ctx context.Context) error {
			lost, err := d.Extend(ctx, []driver.Lease{driver.LeaseOf(running[1])}, leaseTime)
			return some(1-len(lost), err)
		}},
		{"Complete", true, func(ctx context.Context) error {
			e := ended(running[0], amboy.StateFailed)
			return every(d.Complete(ctx, []driver.Completion{{Lease: driver.LeaseOf(running[0]), Record: e}}))
		}},
		{"Release", true, func(ctx context.Context) error {
			return every(d.Release(ctx, []driver.HandBack{{Lease: driver.LeaseOf(running[2])}}))
		}},
		{"Retry", true, func(ctx context.Context) error {
			return d.Retry(ctx, endedRetry(retry, amboy.StateFailed), nextAttempt(retry))
		}},
		{"EndRetry", true, func(ctx context.Context) error {
			return d.EndRetry(ctx, endedRetry(endRetry, amboy.StateFailed))
		}},
		{"Save", true, func(ctx context.Context) error { return d.Save(ctx, saved) }},
		{"SetProgress", true, func(ctx context.Context) error {
			return d.SetProgress(ctx, driver.LeaseOf(running[1]), f.progress(0.5, "half"))
		}},
		{"Act", true, func(ctx context.Context) error {
			acted, err := d.Act(ctx, driver.ActRequest{Query: driver.Query{ID: "act"}, Action: driver.Action{Kind: driver.Cancel}, Limit: 1})
			return some(acted.Done, err)
		}},
		{"Control", true, func(ctx context.Context) error {
			_, err := d.Control(ctx, f.queue, driver.ControlChange{Draining: &yes})
			return err
		}},
		{"Forget", true, func(ctx context.Context) error { return some(d.Forget(ctx, f.after(1), 1)) }},
		{"TakeDuty", true, func(ctx context.Context) error {
			taken, err := d.TakeDuty(ctx, driver.Duty{Name: "duty", Owner: owner, For: time.Hour}, f.start)
			if err == nil && !taken {
				err = errNothing
			}
			return err
		}},
		{"Mark", true, func(ctx context.Context) error {
			_, err := d.Mark(ctx, f.queue, "mark", f.after(1))
			return err
		}},
		{"Keep", true, func(ctx context.Context) error { return d.Keep(ctx, f.note("keep", 1)) }},
		{"KeepNew", true, func(ctx context.Context) error {
			_, _, err := d.KeepNew(ctx, f.note("new", 1), f.start)
			return err
		}},
		{"Replace", true, func(ctx context.Context) error {
			_, err := d.Replace(ctx, f.note("replaced", 1), nil)
			return err
		}},
		{"Drop", true, func(ctx context.Context) error { return d.Drop(ctx, noteKind, "drop") }},
		{"RecoverStale", true, func(ctx context.Context) error { return some(d.RecoverStale(ctx)) }},
		{"Notes", false, func(ctx context.Context) error {
			_, err := d.Notes(ctx, driver.NoteRequest{Kind: noteKind, Limit: 10})
			return err
		}},
		{"Get", false, func(ctx context.Context) error {
			_, err := d.Get(ctx, f.queue, "pending")
			return err
		}},
		{"Attempts", false, func(ctx context.Context) error {
			_, err := d.Attempts(ctx, f.queue, "retry")
			return err
		}},
		{"Find", false, func(ctx context.Context) error {
			_, err := d.Find(ctx, driver.Query{}, driver.PageRequest{Limit: 10})
			return err
		}},
		{"Count", false, func(ctx context.Context) error { return some(d.Count(ctx, driver.Query{}, 10)) }},
		{"CancelRequests", false, func(ctx context.Context) error {
			_, err := d.CancelRequests(ctx, owner)
			return err
		}},
		{"Queues", false, func(ctx context.Context) error {
			infos, err := d.Queues(ctx, driver.QueueRequest{})
			return some(len(infos), err)
		}},
		{"Unfinished", false, func(ctx context.Context) error {
			names, err := d.Unfinished(ctx)
			return some(len(names), err)
		}},
		{"Mark without a time", false, func(ctx context.Context) error {
			_, err := d.Mark(ctx, f.queue, "mark", time.Time{})
			return err
		}},
		{"Stats", false, func(ctx context.Context) error {
			_, err := d.Stats(ctx, f.queue)
			return err
		}},
	}
	if d.Features().Prunes {
		f.emptyQueue("unused")
		all = append(all, call{"Prune", true, func(ctx context.Context) error {
			return some(d.Prune(ctx, driver.PruneRequest{Unused: f.after(1), Limit: 1}))
		}})
	}
	return all
}

// fail requires that calls with an ended context fail and change nothing.
func (f *fixture) fail(ctx context.Context, calls []call) {
	f.Helper()
	unchanged := f.unchanged()
	for _, c := range calls {
		require.ErrorIs(f, c.do(ctx), ctx.Err(), c.name)
	}
	unchanged()
}

// succeed requires that calls work.
func (f *fixture) succeed(calls []call) {
	f.Helper()
	for _, c := range calls {
		require.NoError(f, c.do(f.ctx), c.name)
	}
}

func contextCanceled(f *fixture) {
	calls := f.calls()
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	f.fail(ctx, calls)
	f.succeed(calls)
}

func contextExpired(f *fixture) {
	calls := f.calls()
	ctx, cancel := context.WithDeadline(f.ctx, f.after(-1))
	defer cancel()
	f.fail(ctx, calls)
	f.succeed(calls)
}

// countdown is a context that ends after it was checked a number of times.
type countdown struct {
	context.Context
	left   atomic.Int64
	cancel context.CancelFunc
}

func newCountdown(ctx context.Context, looks int) *countdown {
	c := &countdown{}
	c.Context, c.cancel = context.WithCancel(ctx)
	c.left.Store(int64(looks))
	return c
}

func (c *countdown) look() {
	if c.left.Add(-1) == 0 {
		c.cancel()
	}
}

func (c *countdown) Done() <-chan struct{} {
	c.look()
	return c.Context.Done()
}

func (c *countdown) Err() error {
	c.look()
	return c.Context.Err()
}

// maxLooks bounds how often a call is repeated with a context that ends midway.
const maxLooks = 30

// contextMidway ends the context of each call at its first check, then at its second, and
// so on, until the call succeeds. For a read it doubles the number of checks each time, since
// there is nothing that a read could leave half done.
func contextMidway(f *fixture) {
	for _, c := range f.calls() {
		f.renew() // each of hundreds of repetitions may close a connection, and a busy server is slow to open others
		unchanged := f.unchanged()
		var err error
		for looks := 1; looks <= maxLooks; {
			ctx := newCountdown(f.ctx, looks)
			err = c.do(ctx)
			ctx.cancel()
			if err == nil || f.harness.isUnknown(err) {
				break
			}
			require.ErrorIs(f, err, context.Canceled, c.name)
			unchanged()
			if c.changes {
				looks++
			} else {
				looks *= 2
			}
		}
		switch {
		case f.harness.isUnknown(err):
			err = c.do(f.ctx)
			require.True(f, err == nil || isRefusal(err), "%s must be possible again, or refused because it was done: %v", c.name, err)
		case err != nil:
			require.NoError(f, c.do(f.ctx), "%s must not have been done by a call that failed", c.name)
		}
	}
}

// isRefusal reports whether an error means that the call comes too late.
func isRefusal(err error) bool {
	return isLost(err) || isNothing(err) || amboy.IsDuplicateJobError(err) || errors.Is(err, amboy.ErrQueueDraining)
}

func contextMidwayOfSeveral(f *fixture) {
	for looks := 1; looks <= maxLooks; looks++ {
		var specs []spec
		var records []*driver.Record
		for i := range 5 {
			specs = append(specs, spec{id: fmt.Sprintf("%d-%d", looks, i)})
			records = append(records, f.record(specs[i]))
		}
		ctx := newCountdown(f.ctx, looks)
		errs, err := f.driver.Insert(ctx, records)
		ctx.cancel()
		done := 0
		for i, s := range specs {
			failure := err
			if err == nil {
				failure = errs[i]
			}
			_, missing := f.driver.Get(f.ctx, f.queue, s.id)
			if failure != nil {
				wasRefused := amboy.IsJobNotFoundError(missing) || f.harness.isUnknown(failure)
				require.True(f, wasRefused, "job %q was refused but exists", s.id)
				continue
			}
			require.NoError(f, missing, "job %q was accepted but does not exist", s.id)
			done++
		}
		f.settles()
		if done == len(specs) {
			return
		}
	}
}

func closeRefusesChanges(f *fixture) {
	calls := f.calls()
	require.NoError(f, f.driver.Close(f.ctx))
	for _, c := range calls {
		if c.changes {
			assert.ErrorIs(f, c.do(f.ctx), driver.ErrClosed, c.name)
		}
	}
}

func closeReads(f *fixture) {
	calls := f.calls()
	require.NoError(f, f.driver.Close(f.ctx))
	for _, c := range calls {
		if c.changes {
			continue
		}
		if err := c.do(f.ctx); err != nil {
			assert.ErrorIs(f, err, driver.ErrClosed, c.name)
		}
	}
}

func closeTwice(f *fixture) {
	require.NoError(f, f.driver.Close(f.ctx))
	require.NoError(f, f.driver.Close(f.ctx))
}

func closeWhileCalled(f *fixture) {
	calls := f.calls()
	var racing []func() error
	for _, c := range calls {
		racing = append(racing, func() error { return c.do(f.ctx) })
	}
	racing = append(racing, func() error { return f.driver.Close(f.ctx) })
	for i, err := range f.together(racing...) {
		if err == nil || isRefusal(err) {
			continue // another call came first
		}
		assert.ErrorIs(f, err, driver.ErrClosed, "call %d", i)
	}
}
