package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var contextRules = []rule{
	{"a call whose context was canceled fails, and changes nothing", contextCanceled},
	{"a call whose context is past its deadline fails, and changes nothing", contextExpired},
}

var closeRules = []rule{
	{"a change of a driver that was closed fails", closeRefusesChanges},
	{"a read of a driver that was closed works, or fails", closeReads},
	{"a driver may be closed twice", closeTwice},
	{"calls may run while the driver is closed", closeWhileCalled},
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

// calls puts jobs in the states that the calls need, and returns each call of
// driver.Driver but Close.
func (f *fixture) calls() []call {
	f.Helper()
	retry, endRetry := f.retrying(spec{id: "retry"}), f.retrying(spec{id: "end retry"})
	f.insert(spec{id: "complete"}, spec{id: "extend"}, spec{id: "release"})
	running := f.claim(3)
	require.Len(f, running, 3)
	f.insert(spec{id: "pending"})
	d, inserted, saved := f.driver, f.record(spec{id: "insert"}), f.record(spec{id: "pending", note: "saved"})
	return []call{
		{"Insert", true, func(ctx context.Context) error {
			return every(d.Insert(ctx, []*driver.Record{inserted}))
		}},
		{"Claim", true, func(ctx context.Context) error {
			_, err := d.Claim(ctx, driver.ClaimRequest{Owner: owner, Limit: 1, Now: time.Now()})
			return err
		}},
		{"Extend", true, func(ctx context.Context) error {
			_, err := d.Extend(ctx, []driver.Lease{driver.LeaseOf(running[1])}, f.after(1))
			return err
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
		{"RecoverStale", true, func(ctx context.Context) error {
			_, err := d.RecoverStale(ctx, f.after(9))
			return err
		}},
		{"Get", false, func(ctx context.Context) error {
			_, err := d.Get(ctx, "pending")
			return err
		}},
		{"Attempts", false, func(ctx context.Context) error {
			_, err := d.Attempts(ctx, "retry")
			return err
		}},
		{"List", false, func(ctx context.Context) error {
			_, err := d.List(ctx)
			return err
		}},
		{"Stats", false, func(ctx context.Context) error {
			_, err := d.Stats(ctx)
			return err
		}},
	}
}

// fail requires that calls fail under a context that has ended, and change
// nothing.
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
		if err == nil || errors.Is(err, driver.ErrLeaseLost) { // RecoverStale came first
			continue
		}
		assert.ErrorIs(f, err, driver.ErrClosed, "call %d", i)
	}
}
