package drivertest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
)

// Harness opens the drivers that the suite tests. The suite closes each of them.
// The rules that need a hook which is nil, or a feature that the driver does not
// declare, are skipped and listed.
type Harness struct {
	// Open returns a driver on an empty store, each time another. It must not be
	// nil.
	Open func(t *testing.T) driver.Driver
	// Elapse lets time pass by the clock by which leases of the store of d are
	// measured, for all drivers on that store, without waiting for it. Wall clocks stay
	// as they are. Where the clock is that of a server, Elapse changes what is stored,
	// so that leases end earlier. It must not be nil.
	Elapse func(t *testing.T, d driver.Driver, by time.Duration)
	// Reopen returns another driver on the store of d, where that is durable. d
	// was closed before, or else is not used any more, but for being closed at
	// the end: then it stands for that of a process that was killed, which may
	// have left calls behind.
	Reopen func(t *testing.T, d driver.Driver) driver.Driver
	// Share returns another driver on the store of d, as another process would
	// open it, while d goes on.
	Share func(t *testing.T, d driver.Driver) driver.Driver
	// Begin begins a transaction of the store of d, where that has them.
	Begin func(ctx context.Context, t *testing.T, d driver.Driver) Transaction
	// Break makes the store of d unreachable, until repair is called.
	Break func(t *testing.T, d driver.Driver) (repair func())
	// Variant marks a second form of a store whose first form passes the whole suite.
	// It is checked for the life of a record and for races alone, unless
	// -drivertest.long is set.
	Variant bool
	// IsUnknown tells an error by which the driver says that a call may have
	// been done all the same, because its context ended while the store was at
	// it. Where it is nil, a call that fails must have changed nothing.
	IsUnknown func(err error) bool
}

// isUnknown tells whether a call that failed may have been done.
func (h Harness) isUnknown(err error) bool {
	return err != nil && h.IsUnknown != nil && h.IsUnknown(err)
}

// Transaction is one of a store. Either Commit or Rollback ends it.
type Transaction struct {
	// Context carries the transaction, so that an Insert under it is a part of
	// it.
	Context          context.Context
	Commit, Rollback func() error
}

// need is a feature of the driver, or a hook of the harness, without which there
// is no use in checking a rule.
type need struct {
	lack  string // what is said where it is not there
	isMet func(h Harness, features driver.Features) bool
}

var (
	notifications = need{"the driver does not declare Notifications", func(_ Harness, has driver.Features) bool { return has.Notifications }}
	transactions  = need{"the driver does not declare Transactions", func(_ Harness, has driver.Features) bool { return has.Transactions }}
	durability    = need{"the driver does not declare Durable", func(_ Harness, has driver.Features) bool { return has.Durable }}

	hookReopen = need{"the harness has no Reopen", func(h Harness, _ driver.Features) bool { return h.Reopen != nil }}
	hookShare  = need{"the harness has no Share", func(h Harness, _ driver.Features) bool { return h.Share != nil }}
	hookBegin  = need{"the harness has no Begin", func(h Harness, _ driver.Features) bool { return h.Begin != nil }}
	hookBreak  = need{"the harness has no Break", func(h Harness, _ driver.Features) bool { return h.Break != nil }}
)

// missing says which of several needs is not met; empty where all are.
func (h Harness) missing(features driver.Features, needs []need) string {
	for _, n := range needs {
		if !n.isMet(h, features) {
			return n.lack
		}
	}
	return ""
}

// features are those of the drivers that the harness opens.
func (h Harness) features(t *testing.T) driver.Features {
	t.Helper()
	require.NotNil(t, h.Open, "a harness must have Open")
	require.NotNil(t, h.Elapse, "a harness must have Elapse")
	d := h.Open(t)
	require.NotNil(t, d, "Open must return a driver")
	features := d.Features()
	require.NoError(t, d.Close(t.Context()))
	return features
}
