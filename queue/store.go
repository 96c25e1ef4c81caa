package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/presence"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/engine"
	"github.com/mongodb/amboy/queue/internal/local"
)

// Store is the administrative view of the jobs of one queue, a group, or a whole store.
// Package management is built on it. It is safe for concurrent use.
type Store struct {
	admin     driver.Admin
	driver    driver.Driver
	queues    []string
	leaseTime time.Duration
	now       func() time.Time
	// formOf returns the stored form of the jobs of a queue; nil if jobs are held by reference.
	formOf func(queue string) engine.StoredForm
	// complete implements MarkComplete.
	complete func(ctx context.Context, records []*driver.Record) []error
	// abandon implements Abandon; nil if jobs are held by reference.
	abandon func(ctx context.Context, records []*driver.Record) []error
	// keepCanceled implements KeepCanceled; nil if jobs are held by reference.
	keepCanceled func(r *driver.Record) time.Duration
	// open implements Queue; nil if this process has no queue open.
	open func(name string) (amboy.Queue, bool)
	// openNew implements OpenQueue; nil if this process can't open queues.
	openNew func(ctx context.Context, name string) (amboy.Queue, error)
	// opened returns the names of the queues that are open in this process; nil if
	// admin.Queues lists all of them.
	opened func() []string
	// sinceTurn implements SinceTurn; nil if there is no engine.
	sinceTurn func(ctx context.Context) (time.Duration, error)
	// refresh implements Refresh; nil if this process has nothing to report.
	refresh func(ctx context.Context) error
	// measure implements Measure.
	measure func() ProcessMeasures
	// countTypes makes this process count jobs by type in the background; nil if there is no
	// engine.
	countTypes func()
	// setWorkers sets the number of workers of a queue, if it is open in this process;
	// nil if this process has no queue open.
	setWorkers func(queue string, n int) error
}

// StoreOf returns the store of a queue, restricted to that queue. It returns false for a
// queue of another package. The store must not be used after the queue has closed its
// driver.
func StoreOf(q amboy.Queue) (*Store, bool) { return storeOf(q) }

// StoreOfGroup returns the store of a group. It covers everything in the store that the
// group's queues share or, for a group of queues in memory, the open queues. It returns
// false for a group of another package.
func StoreOfGroup(g amboy.QueueGroup) (*Store, bool) { return storeOf(g) }

func storeOf(holder any) (*Store, bool) {
	switch holder := holder.(type) {
	case *local.Queue:
		return storeOfLocal(holder), true
	case *engine.Queue:
		return storeOfQueue(holder, holder), true
	case interface{ store() *Store }: // of this package, or what embeds it
		return holder.store(), true
	default:
		return nil, false
	}
}

// Admin returns the operations for reading and managing jobs.
func (s *Store) Admin() driver.Admin { return s.admin }

// Driver returns the driver, or nil if jobs are held by reference. Its owner closes it.
func (s *Store) Driver() driver.Driver { return s.driver }

// ByReference reports whether jobs are held by reference, in this process. Such a job may
// change while it is read.
func (s *Store) ByReference() bool { return s.driver == nil }

// HasCodec reports whether the jobs of a queue are encoded by a codec (see
// DriverQueueOptions.Codec), as far as this process knows.
func (s *Store) HasCodec(queue string) bool { return s.formOf != nil && s.formOf(queue).Codec != nil }

// Decode returns a record whose body and result are decoded by the codec of its queue, or r
// itself if no codec encoded them. The records that Admin and Driver return are not decoded,
// so that only code that asks for it reads them. The error wraps codec.ErrKeyUnavailable if
// this process has no such codec or not the key, and is a *registry.MalformedError if the codec
// refuses the data.
func (s *Store) Decode(r *driver.Record) (*driver.Record, error) {
	if s.formOf == nil {
		return r, nil
	}
	return s.formOf(r.Group).Open(r)
}

// Queues returns the names of the queues that the store is restricted to, or none if it
// covers all queues.
func (s *Store) Queues() []string { return s.queues }

// LeaseTime returns how long the lease of a running job lasts unless it is renewed, or 0
// if jobs have no leases.
func (s *Store) LeaseTime() time.Duration { return s.leaseTime }

// Now returns the current time of the queues' clock.
func (s *Store) Now() time.Time { return s.now() }

// Queue returns the queue with that name if it is open in this process. It does not
// block, and does not count as a use that keeps the queue from being pruned.
func (s *Store) Queue(name string) (amboy.Queue, bool) {
	if s.open == nil || !s.covers(name) {
		return nil, false
	}
	return s.open(name)
}

// OpenQueue returns the queue with that name. A group opens it, and makes it if it does not
// exist. OpenQueue returns nil without an error if this process can't open the queue: a group
// opens none without a name. It blocks as QueueGroup.Get does.
func (s *Store) OpenQueue(ctx context.Context, name string) (amboy.Queue, error) {
	if q, ok := s.Queue(name); ok || s.openNew == nil || !s.covers(name) || name == "" {
		return q, nil
	}
	return s.openNew(ctx, name)
}

// covers reports whether the store covers a queue.
func (s *Store) covers(queue string) bool {
	return len(s.queues) == 0 || slices.Contains(s.queues, queue)
}

// QueueInfos describes the queues that Admin.Queues returns, and the queues that are open
// in this process but have neither jobs nor settings in the store yet. They are sorted by
// name. QueueInfos blocks as long as the store takes, and returns the store's errors.
func (s *Store) QueueInfos(ctx context.Context, req driver.QueueRequest) ([]driver.QueueInfo, error) {
	infos, err := s.admin.Queues(ctx, req)
	if err != nil || s.opened == nil {
		return infos, err
	}
	isLast := req.Limit == 0 || len(infos) < req.Limit
	for _, name := range s.opened() {
		if name < req.From || (!isLast && name > infos[len(infos)-1].Name) {
			continue
		}
		infos = append(infos, driver.QueueInfo{Name: name})
	}
	// A queue that is open and stored is described twice, first as it is in the store.
	slices.SortStableFunc(infos, func(a, b driver.QueueInfo) int { return strings.Compare(a.Name, b.Name) })
	infos = slices.CompactFunc(infos, func(a, b driver.QueueInfo) bool { return a.Name == b.Name })
	if req.Limit > 0 {
		infos = infos[:min(req.Limit, len(infos))]
	}
	return infos, nil
}

// MarkComplete ends jobs for good in any state, as if they had run: a job with errors has
// failed, any other has succeeded. Their scopes become free, jobs that depend on them
// proceed, and callers that wait for them wake up. A running job loses its lease, so what
// its worker writes is refused. The context of its run ends with cause
// amboy.ErrLeaseLost: at once if it runs in this process and the queue is open, otherwise
// when the lease is next renewed. A job held by reference has no lease; the context of
// its run ends at once. What the run reports until it returns is visible in the job, but
// has no effect.
//
// MarkComplete returns an error or nil for each record. The error wraps
// amboy.ErrLeaseLost if the job changed since the record was read, or has ended for good.
// Other errors are those of the store.
func (s *Store) MarkComplete(ctx context.Context, records []*driver.Record) []error {
	errs := s.complete(ctx, records)
	for i, err := range errs {
		if err != nil {
			errs[i] = fmt.Errorf("marking job %q complete: %w", records[i].JobID(), err)
		}
	}
	return errs
}

// Abandon takes away the leases of running jobs, so that the jobs run again. A job that
// was to be canceled ends as canceled. The jobs' scopes are free until the next run. The
// contexts of the runs end as with MarkComplete, and what the runs write is refused; a
// run may still be in progress when the next one begins. Abandon returns an error or nil
// for each record. The error wraps amboy.ErrLeaseLost if the job is not in the run that
// the record describes, and ErrByReference if jobs are held by reference. Other errors
// are those of the store.
func (s *Store) Abandon(ctx context.Context, records []*driver.Record) []error {
	errs := make([]error, len(records))
	for i := range errs {
		errs[i] = ErrByReference
	}
	if s.abandon != nil {
		errs = s.abandon(ctx, records)
	}
	for i, err := range errs {
		if err != nil {
			errs[i] = fmt.Errorf("abandoning the run of job %q: %w", records[i].JobID(), err)
		}
	}
	return errs
}

// KeepCanceled returns how long a job is kept after an operator has canceled it, by the retention of
// the job and of its queue; KeepForever means no limit. Of a job whose type this process does not
// know, only the retention of the queue counts, and the default for a queue that it does not know.
func (s *Store) KeepCanceled(r *driver.Record) time.Duration {
	if s.keepCanceled == nil {
		return DefaultKeepOthers
	}
	return s.keepCanceled(r)
}

// ErrByReference is wrapped by the errors of operations that are not possible for jobs
// held by reference.
var ErrByReference = errors.New("the queue holds its jobs by reference")

// Refresh stores the activity of this process, and that it is alive, which is otherwise
// done once a minute. Call it to see current data. It does nothing if it was called less
// than a second ago. It blocks as long as the store takes.
func (s *Store) Refresh(ctx context.Context) error {
	if s.refresh == nil {
		return nil
	}
	if err := s.refresh(ctx); err != nil {
		return fmt.Errorf("storing the activity of this process: %w", err)
	}
	return nil
}

// SetWorkers sets the number of workers that each process has for a queue; 0 restores the
// configured number. The number is stored. This process applies it at once, and other
// processes within a minute. A queue whose runner is not an amboy.ResizableRunner does
// not change. SetWorkers returns an error if n is negative or larger than 10,000, or if
// the store does not cover the queue. It blocks as long as the store takes.
func (s *Store) SetWorkers(ctx context.Context, queue string, n int) error {
	err := s.keepWorkers(ctx, queue, n)
	if err == nil && s.setWorkers != nil {
		err = s.setWorkers(queue, n)
	}
	if err != nil {
		return fmt.Errorf("setting the number of workers of queue %q: %w", queue, err)
	}
	return nil
}

func (s *Store) keepWorkers(ctx context.Context, queue string, n int) error {
	switch {
	case n < 0 || n > presence.MaxWorkers:
		return fmt.Errorf("number must be from 0 to %d (is %d)", presence.MaxWorkers, n)
	case !s.covers(queue):
		return fmt.Errorf("queue must be one of %q", s.queues)
	case n == 0:
		return s.admin.Drop(ctx, presence.WorkersKind, presence.WorkersKey(queue))
	}
	note, err := presence.WorkersNote(queue, n, s.now())
	if err != nil {
		return err
	}
	return s.admin.Keep(ctx, note)
}
