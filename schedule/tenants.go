package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
)

// TenantJobFunc is a JobFunc that is told for which queue of a group the job is.
type TenantJobFunc func(tenant string, tick time.Time) (amboy.Job, error)

// TenantsFunc names the queues of a group for which schedules are kept.
type TenantsFunc func(ctx context.Context) ([]string, error)

// Tenants puts jobs in many queues of a group at the ticks of schedules: each schedule is
// kept for each queue. It is safe for concurrent use.
type Tenants struct {
	group amboy.QueueGroup
	names TenantsFunc
	opts  Options

	changed chan struct{} // has a value when a schedule was added or removed
	runner  runner

	mu         sync.Mutex
	schedules  map[string]*tenantSchedule
	schedulers map[string]*Scheduler // by tenant
	listAt     time.Time             // when the tenants are to be listed
}

// tenantSchedule is what Add was called with.
type tenantSchedule struct {
	name     string
	schedule Schedule
	newJob   TenantJobFunc
	catchUp  CatchUp
}

// NewTenants makes a scheduler for queues of a group, without schedules, which does
// nothing until it is started. names is called when it starts, and then every minute: a
// queue that it does not name any more gets no more jobs; while it fails, the queues stay
// the same. It must name all tenants, also those without work, which QueueGroup.Queues
// does not. The queues are opened when a tick is due, and may be pruned in between.
//
// It returns an error for a group or function that is nil, and for options that are not
// valid.
func NewTenants(group amboy.QueueGroup, names TenantsFunc, opts Options) (*Tenants, error) {
	if group == nil || names == nil {
		return nil, errors.New("making a scheduler for the queues of a group: neither the group nor the function may be nil")
	}
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("making a scheduler for the queues of a group: %w", err)
	}
	return &Tenants{
		group:      group,
		names:      names,
		opts:       opts,
		changed:    make(chan struct{}, 1),
		schedules:  map[string]*tenantSchedule{},
		schedulers: map[string]*Scheduler{},
	}, nil
}

// Add is Scheduler.Add for all queues. The first ticks for a queue are those after the
// first process found it named.
func (t *Tenants) Add(name string, schedule Schedule, newJob TenantJobFunc, catchUp CatchUp) error {
	if newJob == nil {
		return &InvalidError{Schedule: name, Field: "function that makes the jobs", Rule: "must not be nil"}
	}
	added := &tenantSchedule{name, schedule, newJob, catchUp}
	if _, err := newEntry(name, schedule, added.jobFunc(""), catchUp, time.Now()); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.schedules[name] != nil {
		return &DuplicateNameError{Name: name}
	}
	t.schedules[name] = added
	var errs []error
	for tenant, s := range t.schedulers {
		errs = append(errs, added.addTo(s, tenant))
	}
	wake(t.changed)
	return errors.Join(errs...)
}

func (s *tenantSchedule) addTo(scheduler *Scheduler, tenant string) error {
	return scheduler.Add(s.name, s.schedule, s.jobFunc(tenant), s.catchUp)
}

func (s *tenantSchedule) jobFunc(tenant string) JobFunc {
	return func(tick time.Time) (amboy.Job, error) { return s.newJob(tenant, tick) }
}

// Remove removes a schedule here, for all queues, as Scheduler.Remove does for one.
func (t *Tenants) Remove(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.schedules[name] == nil {
		return false
	}
	delete(t.schedules, name)
	for _, s := range t.schedulers {
		s.Remove(name)
	}
	wake(t.changed)
	return true
}

// List describes the schedules of each queue, by name.
func (t *Tenants) List() map[string][]Info {
	t.mu.Lock()
	defer t.mu.Unlock()
	infos := map[string][]Info{}
	for tenant, s := range t.schedulers {
		infos[tenant] = s.List()
	}
	return infos
}

// Start is Scheduler.Start for all queues. It ends when the group was closed.
func (t *Tenants) Start(ctx context.Context) error {
	if !t.runner.start(ctx, t.run) {
		return fmt.Errorf("starting the scheduler of a group: %w", amboy.ErrAlreadyStarted)
	}
	return nil
}

// Close ends what Start began, and waits for the jobs that are just being put. Close it
// before its group. Closing it again, or one that was not started, does nothing.
func (t *Tenants) Close() { t.runner.close() }

func (t *Tenants) run(ctx context.Context) {
	for ctx.Err() == nil {
		next, err := t.PutDue(ctx) // It logs its errors.
		if errors.Is(err, amboy.ErrGroupClosed) && ctx.Err() == nil {
			logging.Error(ctx, message.Fields{"message": "ended a scheduler that was not closed before its group"})
			return
		}
		sleep(ctx, next, time.Now, t.changed)
	}
}

// tenantsAtOnce is the number of queues in which jobs are put at once.
const tenantsAtOnce = 8

// PutDue is Scheduler.PutDue for all queues.
func (t *Tenants) PutDue(ctx context.Context) (next time.Time, err error) {
	errs := []error{t.list(ctx)}
	var mu sync.Mutex // guards what the goroutines below report
	schedulers, next := t.all()
	waiting := make(chan *Scheduler)
	var workers sync.WaitGroup
	for range min(tenantsAtOnce, len(schedulers)) {
		workers.Go(func() {
			for s := range waiting {
				at, err := s.PutDue(ctx)
				mu.Lock()
				next = firstOf(next, at)
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	for _, s := range schedulers {
		waiting <- s
	}
	close(waiting)
	workers.Wait()
	return next, errors.Join(errs...)
}

// firstOf is the earlier of two times, of which zero is none.
func firstOf(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// all are the schedulers, by tenant, and when the tenants are to be listed again.
func (t *Tenants) all() ([]*Scheduler, time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*Scheduler, 0, len(t.schedulers))
	for _, s := range t.schedulers {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *Scheduler) int { return cmp.Compare(a.target.name(), b.target.name()) })
	return all, t.listAt
}

// listEvery is how often the tenants are listed.
const listEvery = time.Minute

// list asks for the tenants if it is time, and takes over what changed.
func (t *Tenants) list(ctx context.Context) error {
	now := time.Now()
	t.mu.Lock()
	isDue := !now.Before(t.listAt) || t.listAt.Sub(now) > listEvery // or the clock was turned back
	if isDue {
		t.listAt = now.Add(listEvery)
	}
	t.mu.Unlock()
	if !isDue {
		return nil
	}
	var names []string
	err := recovering(func() (err error) {
		names, err = t.names(ctx)
		return err
	})
	if err == nil {
		err = t.setTenants(names)
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("listing the queues for which schedules are kept: %w", err)
	if ctx.Err() == nil {
		logging.Error(ctx, message.Fields{"message": "schedules are kept for the same queues as before", "error": err.Error()})
	}
	return err
}

// setTenants adds the tenants that are new, and removes those that are not named.
func (t *Tenants) setTenants(names []string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	named := map[string]bool{}
	var errs []error
	for _, name := range names {
		named[name] = true
		if t.schedulers[name] != nil {
			continue
		}
		s, err := NewInGroup(t.group, name, t.opts)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, added := range t.schedules {
			errs = append(errs, added.addTo(s, name))
		}
		t.schedulers[name] = s
	}
	for name := range t.schedulers {
		if !named[name] {
			delete(t.schedulers, name)
		}
	}
	return errors.Join(errs...)
}
