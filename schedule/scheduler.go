package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mongodb/amboy"
)

// JobFunc makes the job of a tick, which comes in the zone of the schedule. It is
// called in each process that keeps the schedule, and again for a tick whose job
// could not be put. What it sets as the job's ID is replaced by the TickID.
type JobFunc func(tick time.Time) (amboy.Job, error)

// CatchUp says what becomes of the ticks of a schedule that were missed. A tick is
// missed where no process put its job within a minute: because none ran, or because
// the queue took no jobs.
type CatchUp string

// What becomes of ticks that were missed.
const (
	// CatchUpNone lets them go.
	CatchUpNone CatchUp = "none"
	// CatchUpLatest puts the job of the latest of them, unless a later tick is due
	// that was not missed.
	CatchUpLatest CatchUp = "latest"
	// CatchUpAll puts the jobs of all of them, the earliest first; of more than
	// Options.MaxCatchUp those of the latest.
	CatchUpAll CatchUp = "all"
)

// IsValid is true for the values above.
func (c CatchUp) IsValid() bool {
	return c == CatchUpNone || c == CatchUpLatest || c == CatchUpAll
}

// lateness is how late the job of a tick may be put without the tick being missed.
const lateness = time.Minute

// Options configure a Scheduler.
type Options struct {
	// MaxCatchUp is the number of ticks of a schedule whose jobs are put at once,
	// at most. Default: 1000.
	MaxCatchUp int
}

const defaultMaxCatchUp = 1000

// Validate sets the defaults. It returns an error for a MaxCatchUp that is negative.
func (o *Options) Validate() error {
	if o.MaxCatchUp < 0 {
		return fmt.Errorf("invalid scheduler options: MaxCatchUp must not be negative (is %d)", o.MaxCatchUp)
	}
	if o.MaxCatchUp == 0 {
		o.MaxCatchUp = defaultMaxCatchUp
	}
	return nil
}

// Scheduler puts jobs in a queue at the ticks of schedules. It is safe for
// concurrent use.
type Scheduler struct {
	target target
	opts   Options

	changed chan struct{} // has a value where a schedule was added, or removed
	runner  runner

	mu      sync.Mutex
	entries map[string]*entry
	// removed names schedules of which the queue may have been told.
	removed []string
	// tellingFails is true where the queue could not be told the last time.
	tellingFails bool
}

// entry is a schedule of a scheduler.
type entry struct {
	name     string
	schedule Schedule
	newJob   JobFunc
	catchUp  CatchUp
	added    time.Time

	// The rest is guarded by Scheduler.mu.

	// done is the time up to which nothing is to be done any more; zero until the
	// queue has told which tick was the last.
	done     time.Time
	next     time.Time
	last     time.Time
	failures int // since it last worked
	retryAt  time.Time
	err      error
	// toldAt is when the queue was told of it as it is; zero where it was not.
	toldAt time.Time
}

// New makes a scheduler without schedules, which does nothing until it is started.
// It returns an error for a queue that is nil or no amboy.QueueMarker, which the
// queues of package queue are, and for options that are not valid.
//
// The scheduler ends with the queue. That of a group whose queues have a time to live
// is pruned when it has no work: use NewInGroup there.
func New(q amboy.Queue, opts Options) (*Scheduler, error) {
	if q == nil {
		return nil, errors.New("making a scheduler: the queue must not be nil")
	}
	open, err := newOpenQueue(q)
	if err != nil {
		return nil, fmt.Errorf("making a scheduler for queue %q: %w", q.ID(), err)
	}
	return newScheduler(oneQueue{open}, opts)
}

// NewInGroup is New for a queue of a group, which may be pruned: the scheduler opens it
// when a tick is due. It returns an error for a group that is nil, an empty name, and
// options that are not valid.
func NewInGroup(group amboy.QueueGroup, name string, opts Options) (*Scheduler, error) {
	if group == nil || name == "" {
		return nil, errors.New("making a scheduler for a queue of a group: neither the group nor the name may be empty")
	}
	return newScheduler(groupedQueue{group, name}, opts)
}

func newScheduler(t target, opts Options) (*Scheduler, error) {
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("making a scheduler for queue %q: %w", t.name(), err)
	}
	return &Scheduler{
		target:  t,
		opts:    opts,
		changed: make(chan struct{}, 1),
		entries: map[string]*entry{},
	}, nil
}

// Add adds a schedule, also while the scheduler runs. The name must be the same in
// all processes that keep the schedule, and stay the same: by it they know what has
// been done. The first ticks are those after Add in the process that was the first to
// have such a schedule for the queue; from then on none is forgotten, though all
// processes end, but as catchUp says.
//
// Add returns an *InvalidError for a name that is empty, longer than 128 bytes or
// has other characters than letters, digits and "-_.:/", for a schedule or function
// that is nil, and for a catchUp that is none of the values above; and a
// *DuplicateNameError for a name that the scheduler has. It does not block.
func (s *Scheduler) Add(name string, schedule Schedule, newJob JobFunc, catchUp CatchUp) error {
	e, err := newEntry(name, schedule, newJob, catchUp, s.target.now())
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries[name] != nil {
		return &DuplicateNameError{Name: name}
	}
	s.entries[name] = e
	wake(s.changed)
	return nil
}

// newEntry makes the entry of a schedule that is added now.
func newEntry(name string, schedule Schedule, newJob JobFunc, catchUp CatchUp, now time.Time) (*entry, error) {
	refuse := func(field string, value any, rule string) error {
		return &InvalidError{Schedule: name, Field: field, Value: value, Rule: rule}
	}
	switch {
	case !isName(name):
		return nil, &InvalidError{Field: "name", Value: name, Rule: nameRule}
	case schedule == nil:
		return nil, refuse("schedule", schedule, "must not be nil")
	case newJob == nil:
		return nil, refuse("function that makes the jobs", nil, "must not be nil")
	case !catchUp.IsValid():
		return nil, refuse("catch-up", catchUp, `must be "none", "latest" or "all"`)
	}
	now = wholeMilliseconds(now)
	next, err := nextTick(schedule, now)
	if err != nil {
		return nil, refuse("schedule", schedule, err.Error())
	}
	return &entry{name: name, schedule: schedule, newJob: newJob, catchUp: catchUp, added: now, next: next}, nil
}

// wake lets a scheduler look at its schedules.
func wake(changed chan struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

// has tells whether a schedule was not removed.
func (s *Scheduler) has(e *entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[e.name] == e
}

// Remove removes a schedule here, and tells whether there was one. A job that is
// just being put is put. Its ticks count as missed where it is added again.
func (s *Scheduler) Remove(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, found := s.entries[name]
	if found {
		delete(s.entries, name)
		s.removed = append(s.removed, name)
		wake(s.changed)
	}
	return found
}

// Info describes a schedule of a scheduler.
type Info struct {
	Name     string
	Schedule Schedule
	CatchUp  CatchUp
	// Next is the next tick whose job is to be put: one that has passed, where it
	// could not be put yet. The zero time where there is none any more.
	Next time.Time
	// Last is the last tick whose job was put, by whatever process, as far as it
	// is known here. The zero time where none is.
	Last time.Time
	// Err is why the job of the tick Next could not be put; nil where it was not
	// tried yet.
	Err error
}

// List describes the schedules, by name.
func (s *Scheduler) List() []Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	infos := make([]Info, 0, len(s.entries))
	for _, e := range s.entries {
		infos = append(infos, Info{
			Name:     e.name,
			Schedule: e.schedule,
			CatchUp:  e.catchUp,
			Next:     e.next,
			Last:     e.last,
			Err:      e.err,
		})
	}
	slices.SortFunc(infos, func(a, b Info) int { return cmp.Compare(a.Name, b.Name) })
	return infos
}

// maxNameLength is the longest name of a schedule, in bytes.
const maxNameLength = 128

var nameRule = fmt.Sprintf(`must be 1 to %d letters, digits and characters of "-_.:/"`, maxNameLength)

func isName(name string) bool {
	if name == "" || len(name) > maxNameLength {
		return false
	}
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '-', c == '_', c == '.', c == ':', c == '/':
		default:
			return false
		}
	}
	return true
}

// TickID is the ID of the job of a tick: the name of the schedule, and the time of
// the tick in UTC, for instance "report@2030-01-31T08:00:00Z".
func TickID(name string, tick time.Time) string {
	return name + "@" + tick.UTC().Format(time.RFC3339Nano)
}

// lastMark names the mark that tells the last tick of a schedule whose job was put,
// and startMark the one that tells from when on its ticks count.
func lastMark(name string) string  { return "schedule " + name }
func startMark(name string) string { return "schedule " + name + " start" }

// PutDue puts the jobs of all ticks that are due, and returns when it must be called
// again: the zero time where no schedule has a tick any more. It goes by the time of
// the queue (see amboy.Now). The errors of several schedules are joined; each keeps
// only its own schedule from going on, until it is tried again.
//
// A queue that is an amboy.ScheduleTeller learns how the schedules stand.
//
// A scheduler that was started calls it when it is time. It is for tests, whose clock
// is not that of the system, and for programs that have a loop of their own.
func (s *Scheduler) PutDue(ctx context.Context) (next time.Time, err error) {
	now := wholeMilliseconds(s.target.now())
	var errs []error
	for _, e := range s.due(now) {
		if ctx.Err() != nil {
			break
		}
		errs = append(errs, s.putDue(ctx, e, now))
	}
	if ctx.Err() != nil {
		errs = append(errs, fmt.Errorf("putting the jobs of schedules: %w", context.Cause(ctx)))
	}
	s.tell(ctx, now)
	return s.wakeAt(), errors.Join(errs...)
}

// due are the schedules for which something may have to be done, by name.
func (s *Scheduler) due(now time.Time) (due []*entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		if e.isDue(now) {
			due = append(due, e)
		}
	}
	slices.SortFunc(due, func(a, b *entry) int { return cmp.Compare(a.name, b.name) })
	return due
}

// isDue tells whether something may have to be done for a schedule. The caller holds
// the lock of its scheduler.
func (e *entry) isDue(now time.Time) bool {
	at := e.wakeAt()
	switch {
	case e.done.IsZero() && e.retryAt.IsZero():
		return true
	case e.done.After(later(now, e.last)), e.retryAt.After(now.Add(longestBackoff)):
		return true // The clock was turned back.
	default:
		return !at.IsZero() && !at.After(now)
	}
}

// wakeAt is when something has to be done for any schedule.
func (s *Scheduler) wakeAt() (first time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		at := e.wakeAt()
		if first.IsZero() || !at.IsZero() && at.Before(first) {
			first = at
		}
	}
	return first
}

// wakeAt is when something has to be done for a schedule. The caller holds the lock
// of its scheduler.
func (e *entry) wakeAt() time.Time {
	if !e.retryAt.IsZero() {
		return e.retryAt
	}
	return e.next
}
