package drivertest

import (
	"context"
	"fmt"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// outage is how long a call may wait for a store that does not come back.
const outage = 50 * time.Millisecond

var faultRules = []rule{
	{"changes fail while the store can't be reached, and are done once it is back", faultChanges},
	{"reads fail or succeed while the store can't be reached", faultReads},
	{"no lease is lost because the store can't be reached", faultLeases},
	{"accepted records are kept during outages", faultComesAndGoes},
}

var faultNotificationRules = []rule{
	{"subscribers are notified of changes when the store is back", faultNotifies},
}

// broken makes calls while the store can't be reached.
func (f *fixture) broken(calls func()) {
	f.Helper()
	repair := f.harness.Break(f.T, f.driver)
	require.NotNil(f, repair, "Break must return how to repair the store")
	func() {
		defer repair() // even if a call fails the test
		calls()
	}()
}

// impatient returns a context that ends soon after the store became unreachable.
func (f *fixture) impatient() (ctx context.Context, cancel context.CancelFunc) {
	return context.WithTimeout(f.ctx, outage)
}

func faultChanges(f *fixture) {
	calls := f.calls()
	unchanged := f.unchanged()
	f.broken(func() {
		for _, c := range calls {
			if !c.changes {
				continue
			}
			ctx, cancel := f.impatient()
			err := c.do(ctx)
			cancel()
			require.Error(f, err, c.name)
			require.NotErrorIs(f, err, driver.ErrLeaseLost, c.name)
			require.NotErrorIs(f, err, driver.ErrClosed, c.name)
			require.NotErrorIs(f, err, errNothing, c.name)
			require.False(f, amboy.IsDuplicateJobError(err), "%s: the error is %v", c.name, err)
			require.False(f, amboy.IsJobNotFoundError(err), "%s: the error is %v", c.name, err)
		}
	})
	unchanged()
	f.succeed(calls)
}

func faultReads(f *fixture) {
	calls := f.calls()
	f.broken(func() {
		for _, c := range calls {
			if c.changes {
				continue
			}
			ctx, cancel := f.impatient()
			err := c.do(ctx)
			cancel()
			require.NotErrorIs(f, err, errNothing, c.name)
			require.False(f, amboy.IsJobNotFoundError(err), "%s: the error is %v", c.name, err)
		}
	})
	f.succeed(calls)
}

func faultLeases(f *fixture) {
	f.insert(spec{id: "job"})
	r := f.claimOne("job")
	f.broken(func() {
		ctx, cancel := f.impatient()
		defer cancel()
		lost, err := f.driver.Extend(ctx, []driver.Lease{driver.LeaseOf(r)}, leaseTime)
		require.Error(f, err)
		require.Empty(f, lost)
	})
	assert.False(f, f.tryExtend(driver.LeaseOf(r)))
	f.end(r, amboy.StateSucceeded)
}

// faultComesAndGoes inserts, claims and ends jobs despite outages, and repeats calls that
// fail.
func faultComesAndGoes(f *fixture) {
	const jobs = 12
	var put, done []string
	step := func(ctx context.Context, i int) {
		id := fmt.Sprint(i)
		if every(f.driver.Insert(ctx, []*driver.Record{f.record(spec{id: id})})) == nil {
			put = append(put, id)
		}
		claimed, err := f.driver.Claim(ctx, f.request(owner, time.Now(), 1))
		if err != nil {
			return
		}
		for _, r := range claimed.Records {
			c := driver.Completion{Lease: driver.LeaseOf(r), Record: ended(r, amboy.StateSucceeded)}
			if every(f.driver.Complete(ctx, []driver.Completion{c})) == nil {
				done = append(done, r.JobID())
			}
		}
	}
	for i := range jobs {
		if i%3 != 1 {
			step(f.ctx, i)
			continue
		}
		f.broken(func() {
			ctx, cancel := f.impatient()
			defer cancel()
			step(ctx, i)
		})
	}
	f.consistent()
	require.NotEmpty(f, put)
	for _, id := range put {
		f.get(id)
	}
	for _, id := range done {
		f.hasState(id, amboy.StateSucceeded)
	}
}

func faultNotifies(f *fixture) {
	told := f.subscribe()
	f.broken(func() {})
	told(func() { f.insert(spec{id: "job"}) })
}
