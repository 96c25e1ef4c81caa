package drivertest

import (
	"context"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var transactionRules = []rule{
	{"inserted records exist after the commit", transactionCommit},
	{"a rollback leaves nothing", transactionRollback},
	{"a refused record does not affect the others", transactionRefused},
	{"records of one transaction see each other", transactionSeesItself},
	{"a record of a transaction is refused like any other", transactionDraining},
}

var transactionNotificationRules = []rule{
	{"subscribers are notified of the commit", transactionNotifies},
}

// begin begins a transaction, which the test must end.
func (f *fixture) begin() Transaction {
	f.Helper()
	tx := f.harness.Begin(f.ctx, f.T, f.driver)
	require.NotNil(f, tx.Context, "Begin must return a context")
	open := true
	ending := func(end func() error) func() error {
		return func() error {
			open = false
			return end()
		}
	}
	f.Cleanup(func() {
		if open { // the test has failed
			assert.NoError(f, tx.Rollback())
		}
	})
	return Transaction{Context: tx.Context, Commit: ending(tx.Commit), Rollback: ending(tx.Rollback)}
}

// insertIn inserts records under a context.
func (f *fixture) insertIn(ctx context.Context, specs ...spec) []error {
	f.Helper()
	records := make([]*driver.Record, len(specs))
	for i, s := range specs {
		records[i] = f.record(s)
	}
	errs, err := f.driver.Insert(ctx, records)
	require.NoError(f, err)
	require.Len(f, errs, len(specs))
	return errs
}

func transactionCommit(f *fixture) {
	f.insert(spec{id: "before"})
	tx := f.begin()
	require.Equal(f, []error{nil, nil}, f.insertIn(tx.Context, spec{id: "a"}, spec{id: "b", edges: []string{"a"}}))
	f.missing("a")
	assert.Equal(f, []string{"before"}, jobIDs(f.list()))
	assert.Equal(f, 1, f.stats().Total)
	require.NoError(f, tx.Commit())
	f.consistent()
	assert.Equal(f, []string{"before", "a", "b"}, jobIDs(f.list()))
	assert.Equal(f, []string{"before", "a"}, jobIDs(f.claim(10)))
}

func transactionRollback(f *fixture) {
	s := spec{id: "job", scopes: []string{"s"}, enqueueScopes: []string{"s"}, uniqueKey: "key"}
	tx := f.begin()
	require.Equal(f, []error{nil}, f.insertIn(tx.Context, s))
	require.NoError(f, tx.Rollback())
	f.consistent()
	f.missing("job")
	assert.Empty(f, f.list())
	assert.Empty(f, f.claim(10))
	assert.Equal(f, amboy.QueueStats{}.String(), f.stats().String())
	f.insert(s)
	f.claimOne("job")
}

func transactionRefused(f *fixture) {
	f.insert(spec{id: "taken"})
	tx := f.begin()
	errs := f.insertIn(tx.Context, spec{id: "a"}, spec{id: "taken"}, spec{id: "b"})
	require.NoError(f, errs[0])
	require.True(f, amboy.IsDuplicateJobError(errs[1]), "the error is %v", errs[1])
	require.NoError(f, errs[2])
	require.NoError(f, tx.Commit())
	f.consistent()
	assert.Equal(f, []string{"taken", "a", "b"}, jobIDs(f.list()))
}

func transactionSeesItself(f *fixture) {
	tx := f.begin()
	s := []string{"s"}
	require.NoError(f, f.insertIn(tx.Context, spec{id: "a", scopes: s, enqueueScopes: s, uniqueKey: "key"})[0])
	errs := f.insertIn(tx.Context,
		spec{id: "dependent", edges: []string{"a"}},
		spec{id: "a"},
		spec{id: "scope", scopes: s, enqueueScopes: s},
		spec{id: "key", uniqueKey: "key"},
		spec{id: "edge", edges: []string{"unknown"}},
	)
	require.NoError(f, errs[0])
	f.sameDuplicate(amboy.DuplicateJobError{JobID: "a", Reason: amboy.DuplicateID, Value: "a", ExistingID: "a"}, errs[1])
	f.sameDuplicate(amboy.DuplicateJobError{JobID: "scope", Reason: amboy.DuplicateEnqueueScope, Value: "s", ExistingID: "a"}, errs[2])
	f.sameDuplicate(amboy.DuplicateJobError{JobID: "key", Reason: amboy.DuplicateUniqueKey, Value: "key", ExistingID: "a"}, errs[3])
	var invalid *amboy.InvalidJobError
	require.ErrorAs(f, errs[4], &invalid)
	require.NoError(f, tx.Commit())
	f.consistent()
	f.end(f.claimOne("a"), amboy.StateSucceeded)
	f.claimSoon("dependent")
}

// claimSoon claims records, in any order, that the driver may only make ready after the commit of the
// transaction that put them, or that ended what they wait for.
func (f *fixture) claimSoon(ids ...string) {
	f.Helper()
	var claimed []string
	news := make(chan struct{}, 1)
	cancel := f.driver.Subscribe(func(driver.Change) {
		select {
		case news <- struct{}{}:
		default: // already notified
		}
	})
	defer cancel()
	f.unchecked = true // a change in the background may come between two queries
	for {
		claimed = append(claimed, jobIDs(f.claim(10))...)
		require.Subset(f, ids, claimed)
		if len(claimed) == len(ids) {
			f.unchecked = false
			f.settles()
			f.consistent()
			return
		}
		select {
		case <-news:
		case <-f.ctx.Done():
			require.Fail(f, "records did not become ready", "want %s, got %s", ids, claimed)
		}
	}
}

func transactionDraining(f *fixture) {
	f.drain(true)
	tx := f.begin()
	require.ErrorIs(f, f.insertIn(tx.Context, spec{id: "job"})[0], amboy.ErrQueueDraining)
	require.NoError(f, tx.Commit())
	f.missing("job")
}

func transactionNotifies(f *fixture) {
	told := f.subscribe()
	tx := f.begin()
	require.NoError(f, f.insertIn(tx.Context, spec{id: "job"})[0])
	told(func() { require.NoError(f, tx.Commit()) })
	f.claimOne("job")
}
