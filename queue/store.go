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
)

// Store gives those who look after jobs what is known of them: the jobs of a queue, of
// the queues of a group, or of all queues in a store. Package management is made for
// people; this is what it works with. It is safe for concurrent use.
type Store struct {
	admin     driver.Admin
	driver    driver.Driver
	queues    []string
	leaseTime time.Duration
	now       func() time.Time
	// complete is MarkComplete.
	complete func(ctx context.Context, records []*driver.Record) []error
	// abandon is Abandon; nil where jobs are held by reference.
	abandon func(ctx context.Context, records []*driver.Record) []error
	// open is Queue; nil where no queue is in this process.
	open func(name string) (amboy.Queue, bool)
	// opened names the queues that are open in this process; nil where admin knows of
	// all of them.
	opened func() []string
	// sinceTurn is SinceTurn; nil where nothing decides by itself.
	sinceTurn func(ctx context.Context) (time.Duration, error)
	// refresh is Refresh; nil where this process has nothing to tell.
	refresh func(ctx context.Context) error
	// measure is Measure.
	measure func() ProcessMeasures
	// setWorkers lets the queue of that name have a number of workers, where it is
	// open in this process; nil where none is.
	setWorkers func(queue string, n int) error
}

// StoreOf returns the store of a queue, in which the queue is the only one that is
// meant. It returns false for a queue of another package. It is no use any more when
// the queue has closed its driver.
func StoreOf(q amboy.Queue) (*Store, bool) { return storeOf(q) }

// StoreOfGroup returns the store of a group: of all that is in the store that its
// queues share or, for a group of queues in memory, of those that are open. It returns
// false for a group of another package.
func StoreOfGroup(g amboy.QueueGroup) (*Store, bool) { return storeOf(g) }

func storeOf(holder any) (*Store, bool) {
	stored, ok := holder.(interface{ store() *Store })
	if !ok {
		return nil, false
	}
	return stored.store(), true
}

// Admin is what people look after the jobs with.
func (s *Store) Admin() driver.Admin { return s.admin }

// Driver returns the driver; nil where jobs are held by reference. Whoever made it
// closes it.
func (s *Store) Driver() driver.Driver { return s.driver }

// ByReference tells whether jobs are held by reference, in this process: what they
// store of themselves may change while it is read.
func (s *Store) ByReference() bool { return s.driver == nil }

// Queues names the queues that are meant; none where all of the store are.
func (s *Store) Queues() []string { return s.queues }

// LeaseTime is how long the lease of a running job lasts unless it is renewed; 0 where
// there are no leases.
func (s *Store) LeaseTime() time.Duration { return s.leaseTime }

// Now is the time by which the queues go.
func (s *Store) Now() time.Time { return s.now() }

// Queue returns the queue of that name that is open in this process; false where none
// is. It does not block, and is no use of a queue that would keep its group from
// closing it.
func (s *Store) Queue(name string) (amboy.Queue, bool) {
	if s.open == nil || !s.means(name) {
		return nil, false
	}
	return s.open(name)
}

// means tells whether a queue is among those that are meant.
func (s *Store) means(queue string) bool {
	return len(s.queues) == 0 || slices.Contains(s.queues, queue)
}

// QueueInfos describes, by name, the queues that Admin.Queues does, and those that are
// open in this process and have nothing in the store yet, neither jobs nor settings. It
// blocks as long as the store takes, and returns its errors.
func (s *Store) QueueInfos(ctx context.Context) ([]driver.QueueInfo, error) {
	infos, err := s.admin.Queues(ctx)
	if err != nil || s.opened == nil {
		return infos, err
	}
	listed := make(map[string]bool, len(infos))
	for _, info := range infos {
		listed[info.Name] = true
	}
	for _, name := range s.opened() {
		if !listed[name] {
			infos = append(infos, driver.QueueInfo{Name: name})
		}
	}
	slices.SortFunc(infos, func(a, b driver.QueueInfo) int { return strings.Compare(a.Name, b.Name) })
	return infos, nil
}

// MarkComplete ends jobs for good, wherever their records stand, as though they
// had run: those with errors have failed, the others succeeded. Their scopes are
// free, the jobs that depend on them go on, and those that wait for them wake up. A
// job that runs loses its lease: what its worker writes is refused. The context of
// the run ends at once where that is in this process and the queue is open here, and
// else when the lease is next renewed; the cause is amboy.ErrLeaseLost. A job that is
// held by reference has no lease, and the context of its run ends at once all the same.
// What the run reports until it returns shows in the job, and has no consequence.
//
// It gives an error for each record: one that wraps amboy.ErrLeaseLost where it is
// not as it was when it was read, and that of the store. A record whose job has
// ended for good is one that is not as it was.
func (s *Store) MarkComplete(ctx context.Context, records []*driver.Record) []error {
	errs := s.complete(ctx, records)
	for i, err := range errs {
		if err != nil {
			errs[i] = fmt.Errorf("marking job %q complete: %w", records[i].JobID(), err)
		}
	}
	return errs
}

// Abandon takes the leases of running jobs away, so that they run again; one that was to
// be canceled ends as canceled. Their scopes are free until then. The context of such a run
// ends as that of MarkComplete does, and what the run writes is refused: it may still be
// under way when the next one begins. It gives an error for each record: one that wraps
// amboy.ErrLeaseLost if it does not run as it did when it was read, ErrByReference if jobs
// are held by reference, and that of the store.
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

// ErrByReference is wrapped by the error of what can't be done to jobs that a queue holds
// by reference: there is only one of each.
var ErrByReference = errors.New("the queue holds its jobs by reference")

// Refresh makes known what this process knows and has not told yet: what it has done,
// and that it is there. It need not be called, but by those who want to see now what
// would be told within a minute. It blocks as long as the store takes, and does nothing
// where it was done less than a second ago.
func (s *Store) Refresh(ctx context.Context) error {
	if s.refresh == nil {
		return nil
	}
	if err := s.refresh(ctx); err != nil {
		return fmt.Errorf("telling what this process does: %w", err)
	}
	return nil
}

// SetWorkers sets the number of workers that each process has for a queue; 0 stands for
// that with which it was configured. It is kept in the store. This process goes by it
// at once, and others within a minute; a queue whose runner is no
// amboy.ResizableRunner stays as it is. It returns an error for a number that is
// negative or larger than 10,000, and for a queue that is not meant. It blocks as long
// as the store takes.
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
		return fmt.Errorf("it must be from 0 to %d (is %d)", presence.MaxWorkers, n)
	case !s.means(queue):
		return fmt.Errorf("the queue must be one of %q", s.queues)
	case n == 0:
		return s.admin.Drop(ctx, presence.WorkersKind, presence.WorkersKey(queue))
	}
	note, err := presence.WorkersNote(queue, n, s.now())
	if err != nil {
		return err
	}
	return s.admin.Keep(ctx, note)
}
