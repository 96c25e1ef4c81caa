package drivertest

import (
	"context"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var transactionalEndRules = []rule{
	{"attempts end when the transaction is committed", endsAtCommit},
	{"attempts go on when the transaction is rolled back", endsUndone},
	{"the ends free scopes and let dependents run", endsFreeScopes},
	{"a lease that is lost is refused", endsCheckLeases},
	{"what one transaction ends and puts comes together", endsAndInserts},
	{"a transaction of another store is refused", endsForeign},
}

// endIn ends attempts that succeed under a context.
func (f *fixture) endIn(ctx context.Context, records ...*driver.Record) []error {
	f.Helper()
	completions := make([]driver.Completion, len(records))
	for i, r := range records {
		completions[i] = driver.Completion{Lease: driver.LeaseOf(r), Record: ended(r, amboy.StateSucceeded)}
	}
	errs, err := f.driver.Complete(ctx, completions)
	require.NoError(f, err)
	require.Len(f, errs, len(records))
	return errs
}

func endsAtCommit(f *fixture) {
	f.insert(spec{id: "a"}, spec{id: "b"}, spec{id: "c"})
	running := f.claim(3)
	tx := f.begin()
	require.Equal(f, []error{nil, nil}, f.endIn(tx.Context, running[:2]...))
	f.hasState("a", amboy.StateRunning)
	require.NoError(f, tx.Commit())
	f.consistent()
	f.hasState("a", amboy.StateSucceeded)
	f.hasState("b", amboy.StateSucceeded)
	f.hasState("c", amboy.StateRunning)
	f.lost(f.tryComplete(driver.LeaseOf(running[0]), ended(running[0], amboy.StateFailed)))
}

func endsUndone(f *fixture) {
	f.insert(spec{id: "job", scopes: []string{"s"}})
	r := f.claimOne("job")
	tx := f.begin()
	require.Equal(f, []error{nil}, f.endIn(tx.Context, r))
	require.NoError(f, tx.Rollback())
	f.consistent()
	f.hasState("job", amboy.StateRunning)
	assert.False(f, f.tryExtend(driver.LeaseOf(r)), "the lease is lost")
	f.end(r, amboy.StateFailed)
	f.hasState("job", amboy.StateFailed)
}

func endsFreeScopes(f *fixture) {
	f.insert(spec{id: "holder", scopes: []string{"s"}}, spec{id: "next", scopes: []string{"s"}}, spec{id: "dependent", edges: []string{"holder"}})
	r := f.claimOne("holder")
	tx := f.begin()
	require.Equal(f, []error{nil}, f.endIn(tx.Context, r))
	require.NoError(f, tx.Commit())
	f.consistent()
	f.claimFreed("next", "dependent")
}

// claimFreed claims records, in this order, that the end of another one in a transaction has made ready: with
// the commit, unless the driver does so after it.
func (f *fixture) claimFreed(ids ...string) {
	f.Helper()
	if _, isLater := f.driver.(driver.EndFollower); isLater {
		f.claimSoon(ids...)
		return
	}
	assert.Equal(f, ids, jobIDs(f.claim(10)))
}

func endsCheckLeases(f *fixture) {
	f.insert(spec{id: "lost"}, spec{id: "job"})
	running := f.claim(2)
	f.release(driver.HandBack{Lease: driver.LeaseOf(running[0])})
	tx := f.begin()
	errs := f.endIn(tx.Context, running...)
	f.lost(errs[0])
	require.NoError(f, errs[1])
	require.NoError(f, tx.Rollback())
	f.consistent()
	f.hasState("lost", amboy.StatePending)
	f.hasState("job", amboy.StateRunning)
}

func endsAndInserts(f *fixture) {
	f.insert(spec{id: "job"})
	r := f.claimOne("job")
	tx := f.begin()
	require.Equal(f, []error{nil}, f.insertIn(tx.Context, spec{id: "follower", edges: []string{"job"}}))
	require.Equal(f, []error{nil}, f.endIn(tx.Context, r))
	require.NoError(f, tx.Commit())
	f.consistent()
	f.claimFreed("follower")
}

func endsForeign(f *fixture) {
	f.insert(spec{id: "job"})
	r := f.claimOne("job")
	ctx := driver.WithTransaction(f.ctx, foreignTransaction{})
	_, err := f.driver.Complete(ctx, []driver.Completion{{Lease: driver.LeaseOf(r), Record: ended(r, amboy.StateSucceeded)}})
	require.ErrorIs(f, err, driver.ErrForeignTransaction)
	f.hasState("job", amboy.StateRunning)
}
