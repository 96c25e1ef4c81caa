package drivertest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
)

// Harness opens the drivers that the suite tests. The suite closes each of them. Rules
// that need a nil hook, or a feature that the driver does not declare, are skipped and
// listed.
type Harness struct {
	// Open returns a driver on a new, empty store. It must not be nil.
	Open func(t *testing.T) driver.Driver
	// Elapse lets time pass, without waiting, by the clocks that measure the leases and
	// the rates of the store of d, for all drivers on that store. Wall clocks do not
	// change. If the clock is that of a server, Elapse changes what is stored: so that
	// leases end earlier, and tokens come earlier. It must not be nil.
	Elapse func(t *testing.T, d driver.Driver, by time.Duration)
	// StepClock sets the clock that measures the rates of the store of d forth, or back if
	// by is negative, for all drivers on that store, if it can be set.
	StepClock func(t *testing.T, d driver.Driver, by time.Duration)
	// Reopen returns another driver on the store of d, if that is durable. d was closed
	// before, or else is no longer used and closed at the end; then it stands for the
	// driver of a killed process, which may have left calls behind.
	Reopen func(t *testing.T, d driver.Driver) driver.Driver
	// Share returns another driver on the store of d, as another process would open it,
	// while d stays in use.
	Share func(t *testing.T, d driver.Driver) driver.Driver
	// Begin begins a transaction of the store of d, if it supports transactions.
	Begin func(ctx context.Context, t *testing.T, d driver.Driver) Transaction
	// ReadLittle makes Work of d read at most n due records, if it does not read all.
	ReadLittle func(d driver.Driver, n int)
	// Break makes the store of d unreachable, until repair is called.
	Break func(t *testing.T, d driver.Driver) (repair func())
	// Variant marks a second form of a store whose first form passes the whole suite. The
	// suite then checks only the life of a record and the races, unless -drivertest.long
	// is set.
	Variant bool
	// IsUnknown reports whether an error means that a call may have been done all the
	// same, because its context ended while the store worked on it. If it is nil, a call
	// that fails must have changed nothing.
	IsUnknown func(err error) bool
}

// isUnknown reports whether a call that failed may have been done.
func (h Harness) isUnknown(err error) bool {
	return err != nil && h.IsUnknown != nil && h.IsUnknown(err)
}

// Transaction is a transaction of a store. Either Commit or Rollback ends it.
type Transaction struct {
	// Context carries the transaction; an Insert with it is part of the transaction.
	Context          context.Context
	Commit, Rollback func() error
}

// need is a feature of the driver, or a hook of the harness, without which a rule can't
// be checked.
type need struct {
	lack  string // the reason for skipping rules without it
	isMet func(h Harness, features driver.Features) bool
}

var (
	notifications     = need{"the driver does not declare Notifications", func(_ Harness, has driver.Features) bool { return has.Notifications }}
	transactions      = need{"the driver does not declare Transactions", func(_ Harness, has driver.Features) bool { return has.Transactions }}
	transactionalEnds = need{
		"the driver does not declare TransactionalEnds",
		func(_ Harness, has driver.Features) bool { return has.TransactionalEnds },
	}
	durability = need{"the driver does not declare Durable", func(_ Harness, has driver.Features) bool { return has.Durable }}

	nextAttempts = need{"the driver does not declare NextAttempts", func(_ Harness, has driver.Features) bool { return has.NextAttempts }}
	limits       = need{"the driver does not declare Limits", func(_ Harness, has driver.Features) bool { return has.Limits }}
	prunes       = need{"the driver does not declare Prunes", func(_ Harness, has driver.Features) bool { return has.Prunes }}

	hookReopen    = need{"the harness has no Reopen", func(h Harness, _ driver.Features) bool { return h.Reopen != nil }}
	hookShare     = need{"the harness has no Share", func(h Harness, _ driver.Features) bool { return h.Share != nil }}
	hookBegin     = need{"the harness has no Begin", func(h Harness, _ driver.Features) bool { return h.Begin != nil }}
	hookStepClock = need{"the harness has no StepClock", func(h Harness, _ driver.Features) bool { return h.StepClock != nil }}

	hookBreak = need{"the harness has no Break", func(h Harness, _ driver.Features) bool { return h.Break != nil }}
)

// missing returns why a need is not met, or an empty string if all are.
func (h Harness) missing(features driver.Features, needs []need) string {
	for _, n := range needs {
		if !n.isMet(h, features) {
			return n.lack
		}
	}
	return ""
}

// features returns the features of the drivers that the harness opens.
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
