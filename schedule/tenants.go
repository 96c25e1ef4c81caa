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
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/internal/loop"
)

// TenantJobFunc is like JobFunc, and also gets the name of the queue.
type TenantJobFunc func(tenant string, tick time.Time) (amboy.Job, error)

// TenantsFunc returns the names of the queues of a group for which schedules run. Its context
// ends after 30 seconds. While it takes long, schedules go on for the queues of the last call.
type TenantsFunc func(ctx context.Context) ([]string, error)

// Tenants puts jobs in many queues of a group at the ticks of schedules: each schedule
// runs for each queue. It is safe for concurrent use.
type Tenants struct {
	group amboy.QueueGroup
	names TenantsFunc
	opts  Options

	changed chan struct{} // has a value when there may be something to do earlier
	loop    loop.Loop
	calls   loop.Calls // of list, and of Scheduler.putDueAt by tenant; those of the schedulers too

	mu         sync.Mutex
	schedules  map[string]*tenantSchedule
	schedulers map[string]*Scheduler // by tenant
	listAt     time.Time             // when to list the tenants again
	isListing  bool                  // during list
}

// tenantSchedule holds the arguments of Add.
type tenantSchedule struct {
	name     string
	schedule Schedule
	newJob   TenantJobFunc
	catchUp  CatchUp
}

// NewTenants makes a scheduler for queues of a group, without schedules. It does nothing
// until it is started. names is called at the start and then every minute. A queue that it
// no longer returns gets no more jobs; if it fails, the queues stay the same. It must
// return all tenants, including those without work, which QueueGroup.Queues omits. The
// queues are opened when a tick is due, and may be pruned in between.
//
// NewTenants returns an error if the group or the function is nil, and for invalid options.
func NewTenants(group amboy.QueueGroup, names TenantsFunc, opts Options) (*Tenants, error) {
	if group == nil || names == nil {
		return nil, errors.New("making a scheduler for the queues of a group: the group and the function must not be nil")
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

// Add is like Scheduler.Add, for all queues. Ticks for a queue count from when the first
// process found it among the names.
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

// Remove is like Scheduler.Remove, for all queues.
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

// List describes the schedules of each queue, sorted by name.
func (t *Tenants) List() map[string][]Info {
	t.mu.Lock()
	defer t.mu.Unlock()
	infos := map[string][]Info{}
	for tenant, s := range t.schedulers {
		infos[tenant] = s.List()
	}
	return infos
}

// Start is like Scheduler.Start, for all queues. It stops when the group is closed.
func (t *Tenants) Start(ctx context.Context) error {
	if !t.loop.Start(ctx, t.run) {
		return fmt.Errorf("starting the scheduler of a group: %w", amboy.ErrAlreadyStarted)
	}
	return nil
}

// Close stops what Start began, and waits until jobs that are being put have been put, or until
// ctx ends. Call it before closing the group. It does nothing if the scheduler was not started
// or is already closed.
func (t *Tenants) Close(ctx context.Context) { t.loop.Close(ctx) }

func (t *Tenants) run(ctx context.Context) {
	defer t.calls.Wait()
	for ctx.Err() == nil {
		next, err := t.PutDue(ctx) // It logs its errors.
		if isGone(groupedQueue{}, err) && ctx.Err() == nil {
			logging.Error(ctx, message.Fields{"message": "scheduler stopped because its group was closed"})
			return
		}
		sleep(ctx, next, time.Now, t.changed)
	}
}

// tenantsAtOnce is the number of queues in which jobs are put concurrently. Queues that take
// long, for instance because they are full, do not count.
const tenantsAtOnce = 8

// PutDue is like Scheduler.PutDue, for all queues. It does not wait for a queue that takes long.
func (t *Tenants) PutDue(ctx context.Context) (next time.Time, err error) {
	var all outcome
	loop.ForEach(&t.calls, 1, []string{"list"}, func(key string) string { return key }, func(string) {
		if !all.add(time.Time{}, t.list(ctx)) {
			wake(t.changed)
		}
	})
	schedulers, listAt := t.all()
	all.add(listAt, nil)
	// All of them have the same time, so that no tick counts as missed because many tenants have it.
	now := time.Now()
	loop.ForEach(&t.calls, tenantsAtOnce, schedulers, func(s *Scheduler) string { return "tenant " + s.target.name() }, func(s *Scheduler) {
		if !all.add(s.putDueAt(ctx, now, waitForNone)) {
			wake(t.changed) // its next tick may come before the others
		}
	})
	return all.end()
}

// all returns the schedulers, sorted by tenant, and when to list the tenants again: the zero time while
// they are listed.
func (t *Tenants) all() ([]*Scheduler, time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*Scheduler, 0, len(t.schedulers))
	for _, s := range t.schedulers {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *Scheduler) int { return cmp.Compare(a.target.name(), b.target.name()) })
	if t.isListing {
		return all, time.Time{}
	}
	return all, t.listAt
}

// listEvery is how often the tenants are listed, and listTime how long that may take.
const listEvery, listTime = time.Minute, lateness / 2

// list calls the TenantsFunc if it is time, and applies the changes.
func (t *Tenants) list(ctx context.Context) error {
	now := time.Now()
	t.mu.Lock()
	isDue := !now.Before(t.listAt) || t.listAt.Sub(now) > listEvery // or the clock was turned back
	if isDue {
		t.listAt, t.isListing = now.Add(listEvery), true
	}
	t.mu.Unlock()
	if !isDue {
		return nil
	}
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.isListing = false
	}()
	var names []string
	err := contain.Alone(func() (err error) {
		limited, cancel := context.WithTimeout(ctx, listTime)
		defer cancel()
		names, err = t.names(limited)
		if err != nil {
			return &namesError{err}
		}
		return nil
	})
	if err == nil {
		err = t.setTenants(names)
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("listing the queues for which schedules run: %w", err)
	if ctx.Err() == nil {
		logging.Error(ctx, message.Fields{"message": "listing the queues for schedules failed; keeping the previous ones", "error": err.Error()})
	}
	return err
}

// namesError is an error of a TenantsFunc.
type namesError struct{ error }

func (e *namesError) Unwrap() error { return e.error }

// setTenants adds new tenants, and removes tenants that are not in names.
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
		s.calls, s.changed = &t.calls, t.changed
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
