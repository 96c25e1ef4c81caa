package benchmarks

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// countingDriver counts the calls that reach the store.
type countingDriver struct {
	driver.Driver
	calls atomic.Int64
}

func (d *countingDriver) Insert(ctx context.Context, records []*driver.Record) ([]error, error) {
	d.calls.Add(1)
	return d.Driver.Insert(ctx, records)
}

func (d *countingDriver) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	d.calls.Add(1)
	return d.Driver.Claim(ctx, req)
}

func (d *countingDriver) Extend(ctx context.Context, leases []driver.Lease, leaseTime time.Duration) ([]driver.Lease, error) {
	d.calls.Add(1)
	return d.Driver.Extend(ctx, leases, leaseTime)
}

func (d *countingDriver) Complete(ctx context.Context, completions []driver.Completion) ([]error, error) {
	d.calls.Add(1)
	return d.Driver.Complete(ctx, completions)
}

func (d *countingDriver) Release(ctx context.Context, handBacks []driver.HandBack) ([]error, error) {
	d.calls.Add(1)
	return d.Driver.Release(ctx, handBacks)
}

func (d *countingDriver) Retry(ctx context.Context, ended, next *driver.Record) error {
	d.calls.Add(1)
	return d.Driver.Retry(ctx, ended, next)
}

func (d *countingDriver) EndRetry(ctx context.Context, ended *driver.Record) error {
	d.calls.Add(1)
	return d.Driver.EndRetry(ctx, ended)
}

func (d *countingDriver) Save(ctx context.Context, r *driver.Record) error {
	d.calls.Add(1)
	return d.Driver.Save(ctx, r)
}

func (d *countingDriver) SetProgress(ctx context.Context, lease driver.Lease, progress driver.Progress) error {
	d.calls.Add(1)
	return d.Driver.SetProgress(ctx, lease, progress)
}

func (d *countingDriver) CancelRequests(ctx context.Context, owner string) ([]driver.Lease, error) {
	d.calls.Add(1)
	return d.Driver.CancelRequests(ctx, owner)
}

func (d *countingDriver) Get(ctx context.Context, queue, id string) (*driver.Record, error) {
	d.calls.Add(1)
	return d.Driver.Get(ctx, queue, id)
}

func (d *countingDriver) Attempts(ctx context.Context, queue, id string) ([]*driver.Record, error) {
	d.calls.Add(1)
	return d.Driver.Attempts(ctx, queue, id)
}

func (d *countingDriver) Find(ctx context.Context, q driver.Query, page driver.PageRequest) (driver.Page, error) {
	d.calls.Add(1)
	return d.Driver.Find(ctx, q, page)
}

func (d *countingDriver) Count(ctx context.Context, q driver.Query, limit int) (int, error) {
	d.calls.Add(1)
	return d.Driver.Count(ctx, q, limit)
}

func (d *countingDriver) Act(ctx context.Context, req driver.ActRequest) (driver.Acted, error) {
	d.calls.Add(1)
	return d.Driver.Act(ctx, req)
}

func (d *countingDriver) Stats(ctx context.Context, queue string) (amboy.QueueStats, error) {
	d.calls.Add(1)
	return d.Driver.Stats(ctx, queue)
}

func (d *countingDriver) Queues(ctx context.Context, req driver.QueueRequest) ([]driver.QueueInfo, error) {
	d.calls.Add(1)
	return d.Driver.Queues(ctx, req)
}

func (d *countingDriver) CountTypes(ctx context.Context) ([]driver.TypeCount, error) {
	d.calls.Add(1)
	return d.Driver.CountTypes(ctx)
}

func (d *countingDriver) OldestReady(ctx context.Context, queues []string, now time.Time) (map[string]time.Time, error) {
	d.calls.Add(1)
	return d.Driver.OldestReady(ctx, queues, now)
}

func (d *countingDriver) Work(ctx context.Context, now time.Time) (driver.Work, error) {
	d.calls.Add(1)
	return d.Driver.Work(ctx, now)
}

func (d *countingDriver) Unfinished(ctx context.Context) ([]string, error) {
	d.calls.Add(1)
	return d.Driver.Unfinished(ctx)
}

func (d *countingDriver) Control(ctx context.Context, queue string, change driver.ControlChange) (driver.Control, error) {
	d.calls.Add(1)
	return d.Driver.Control(ctx, queue, change)
}

func (d *countingDriver) RecoverStale(ctx context.Context, keep ...driver.Lease) (int, error) {
	d.calls.Add(1)
	return d.Driver.RecoverStale(ctx, keep...)
}

func (d *countingDriver) Forget(ctx context.Context, now time.Time, limit int) (int, error) {
	d.calls.Add(1)
	return d.Driver.Forget(ctx, now, limit)
}

func (d *countingDriver) TakeDuty(ctx context.Context, duty driver.Duty, now time.Time) (bool, error) {
	d.calls.Add(1)
	return d.Driver.TakeDuty(ctx, duty, now)
}
