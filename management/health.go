package management

import (
	"context"
	"time"

	"github.com/mongodb/amboy/internal/publictext"
	"github.com/mongodb/amboy/queue/driver"
)

// HealthCheck is the result of one check of whether a process is ready for jobs.
type HealthCheck struct {
	// Name is "store", "schema" or "dispatch".
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Error is why the check failed; empty if it passed. It omits what a store reports.
	Error string `json:"error,omitempty"`
	// Err is the complete error.
	Err error `json:"-"`
}

// HealthChecker reports whether a process is ready for jobs. The Inspectors of this package
// are HealthCheckers.
type HealthChecker interface {
	// CheckHealth checks three things: store, whether the store can be reached; schema, whether it
	// is the one that this process uses, and jobs can be read from it; and dispatch, whether the
	// process has made a dispatch decision within the last minute, which it does every 30 seconds
	// even if nothing happens. It reads one note and one job, blocks as long as that takes, and
	// stops when ctx ends.
	CheckHealth(ctx context.Context) []HealthCheck
}

var _ HealthChecker = (*inspector)(nil)

// maxTurn is the maximum time since the last dispatch decision.
const maxTurn = time.Minute

func (i *inspector) CheckHealth(ctx context.Context) []HealthCheck {
	if err := i.check(); err != nil {
		return []HealthCheck{newHealthCheck("store", err)}
	}
	_, errNotes := i.store.Admin().Notes(ctx, driver.NoteRequest{Kind: secretKind, Limit: 1})
	errJobs := i.checkSchema(ctx)
	if errJobs == nil {
		_, errJobs = i.store.Admin().Find(ctx, driver.Query{Queues: i.store.Queues(), Latest: true}, driver.PageRequest{Limit: 1, Newest: true})
	}
	return []HealthCheck{
		newHealthCheck("store", errNotes),
		newHealthCheck("schema", errJobs),
		newHealthCheck("dispatch", i.checkTurn(ctx)),
	}
}

func (i *inspector) checkSchema(ctx context.Context) error {
	if checker, ok := i.store.Admin().(driver.SchemaChecker); ok {
		return checker.CheckSchema(ctx)
	}
	return nil
}

func (i *inspector) checkTurn(ctx context.Context) error {
	since, err := i.store.SinceTurn(ctx)
	if err == nil && since > maxTurn {
		err = publictext.Errorf("the last dispatch decision was made %s ago", since.Round(time.Second))
	}
	return err
}

func newHealthCheck(name string, err error) HealthCheck {
	check := HealthCheck{Name: name, OK: err == nil, Err: err}
	if err != nil {
		check.Error, _ = publicText(err)
	}
	return check
}
