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
	"github.com/mongodb/amboy/internal/loop"
)

// JobFunc makes the job of a tick. The tick is in the zone of the schedule. JobFunc is
// called in each process that runs the schedule, and again if the job could not be put.
// The job's ID is replaced by the TickID. If a call takes longer than two seconds, those of
// other schedules go on beside it.
type JobFunc func(tick time.Time) (amboy.Job, error)

// CatchUp is what happens to missed ticks of a schedule. A tick is missed if no process put
// its job within a minute, because none was running, or because the queue took no jobs.
type CatchUp string

// The values of CatchUp.
const (
	// CatchUpNone drops missed ticks.
	CatchUpNone CatchUp = "none"
	// CatchUpLatest puts the job of the latest missed tick, unless a later tick is due that
	// was not missed.
	CatchUpLatest CatchUp = "latest"
	// CatchUpAll puts the jobs of all missed ticks, the earliest first. If there are more
	// than Options.MaxCatchUp, it puts the jobs of the latest.
	CatchUpAll CatchUp = "all"
)

// IsValid reports whether c is one of the values above.
func (c CatchUp) IsValid() bool {
	return c == CatchUpNone || c == CatchUpLatest || c == CatchUpAll
}

// lateness is how late the job of a tick may be put before the tick counts as missed.
const lateness = time.Minute

// Options configure a Scheduler.
type Options struct {
	// MaxCatchUp is the maximum number of ticks of a schedule whose jobs are put at once.
	// Default: 1000.
	MaxCatchUp int
}

const defaultMaxCatchUp = 1000

// Validate sets the defaults. It returns an error for a negative MaxCatchUp.
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

	changed chan struct{} // has a value if a schedule was added or removed, or took long and has ended
	loop    loop.Loop
	calls   *loop.Calls // of putDue

	mu      sync.Mutex
	entries map[string]*entry
	// removed names removed schedules that the queue may still list.
	removed []string
	// reportFailing is true if the last report to the queue failed.
	reportFailing bool
}

// entry is a schedule of a scheduler.
type entry struct {
	name     string
	schedule Schedule
	newJob   JobFunc
	catchUp  CatchUp
	added    time.Time

	// Scheduler.mu guards the fields below.

	// isBusy is true during putDue.
	isBusy bool
	// done is the time up to which all ticks have been handled. It is zero until the
	// queue's marks have been read.
	done     time.Time
	next     time.Time
	last     time.Time
	failures int // since the last success
	retryAt  time.Time
	err      error
	// reportedAt is when the current state was reported to the queue; zero if it was not.
	reportedAt time.Time
}

// New makes a scheduler without schedules, which does nothing until it is started. It
// returns an error if the queue is nil or not an amboy.QueueMarker, as the queues of
// package queue are, and for invalid options.
//
// The scheduler ends with the queue. If the queue belongs to a group that prunes idle
// queues, use NewInGroup instead.
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

// NewInGroup is like New, for a queue of a group, which may be pruned: the scheduler opens
// the queue when a tick is due. It returns an error if the group is nil or the name is
// empty, and for invalid options.
func NewInGroup(group amboy.QueueGroup, name string, opts Options) (*Scheduler, error) {
	if group == nil || name == "" {
		return nil, errors.New("making a scheduler for a queue of a group: the group must not be nil and the name must not be empty")
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
		calls:   &loop.Calls{},
		entries: map[string]*entry{},
	}, nil
}

// Add adds a schedule. It may be called while the scheduler runs. The name identifies the
// progress of the schedule: it must be the same in all processes that run the schedule,
// and must not change. Ticks count from the first Add of that name for the queue in any
// process. From then on no tick is lost, even if no process runs for a while, except as
// catchUp says.
//
// Add returns an *InvalidError if the name is empty, longer than 128 bytes or contains
// characters other than letters, digits and "-_.:/", if the schedule or the function is
// nil, and if catchUp is invalid. It returns a *DuplicateNameError if the scheduler
// already has a schedule of that name. It does not block.
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

// newEntry makes the entry of a schedule that is added at now.
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

// wake makes a scheduler check its schedules.
func wake(changed chan struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

// isAdded reports whether a schedule has not been removed.
func (s *Scheduler) isAdded(e *entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[e.name] == e
}

// Remove removes a schedule from this scheduler, and reports whether it existed. A job
// that is being put is still put. If the schedule is added again, its ticks in between
// count as missed.
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
	// Next is the next tick whose job is to be put. It has passed if the job could not be
	// put yet. It is the zero time if no tick follows.
	Next time.Time
	// Last is the last tick whose job is known to have been put, by any process. It is the
	// zero time if none is known.
	Last time.Time
	// Err is why the job of the tick Next could not be put; nil if that was not tried yet.
	Err error
}

// List describes the schedules, sorted by name.
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

// maxNameLength is the maximum length of a schedule's name, in bytes.
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

// TickID returns the ID of the job of a tick: the name of the schedule and the time of the
// tick in UTC, for instance "report@2030-01-31T08:00:00Z".
func TickID(name string, tick time.Time) string {
	return name + "@" + tick.UTC().Format(time.RFC3339Nano)
}

// lastMark names the mark of a schedule's last tick whose job was put, and startMark the
// mark of the time from which its ticks count.
func lastMark(name string) string  { return "schedule " + name }
func startMark(name string) string { return "schedule " + name + " start" }

// PutDue puts the jobs of all ticks that are due. It returns when it must be called again,
// or the zero time if no schedule has another tick. It uses the time of the queue (see
// amboy.Now). It joins the errors of the schedules. A schedule with an error is tried
// again later; the others are not affected.
//
// If the queue is an amboy.ScheduleTeller, PutDue reports the state of the schedules to it.
//
// A started scheduler does this by itself. PutDue is exported for tests with a clock of
// their own, and for programs with a loop of their own. It waits for all schedules, also
// for one whose JobFunc takes long.
func (s *Scheduler) PutDue(ctx context.Context) (next time.Time, err error) {
	return s.putDueAt(ctx, s.target.now(), s.calls.Wait)
}

// waitForNone is for callers of putDueAt that do not wait for schedules that take long.
func waitForNone() {}

// putDueAt is PutDue for the ticks that are due at now. It calls wait before it returns; the errors
// of schedules that go on after that are only logged.
func (s *Scheduler) putDueAt(ctx context.Context, now time.Time, wait func()) (next time.Time, err error) {
	now = wholeMilliseconds(now)
	var all outcome
	loop.ForEach(s.calls, 1, s.due(now), func(e *entry) string { return fmt.Sprintf("schedule %p", e) }, func(e *entry) {
		if ctx.Err() == nil && !all.add(time.Time{}, s.putDue(ctx, e, now)) {
			wake(s.changed)
		}
	})
	wait()
	if ctx.Err() != nil {
		all.add(time.Time{}, fmt.Errorf("putting the jobs of schedules: %w", context.Cause(ctx)))
	}
	s.report(ctx, now)
	_, err = all.end()
	return s.wakeAt(), err // after the end, so that what was busy still wakes the scheduler
}

// outcome gathers what calls return, of which some may go on after the gathering has ended.
type outcome struct {
	mu      sync.Mutex
	next    time.Time // the earliest time of all
	errs    []error
	isEnded bool
}

// add adds what a call returned. It returns false after the end.
func (o *outcome) add(next time.Time, err error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.isEnded {
		o.next, o.errs = firstOf(o.next, next), append(o.errs, err)
	}
	return !o.isEnded
}

func (o *outcome) end() (next time.Time, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.isEnded = true
	return o.next, errors.Join(o.errs...)
}

// firstOf returns the earlier of two times. The zero time means no time.
func firstOf(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// due returns the schedules that may have something to do, sorted by name.
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

// isDue reports whether a schedule may have something to do. The caller holds the lock of
// its scheduler.
func (e *entry) isDue(now time.Time) bool {
	at := e.wakeAt()
	switch {
	case e.isBusy:
		return false
	case e.done.IsZero() && e.retryAt.IsZero():
		return true
	case e.done.After(later(now, e.last)), e.retryAt.After(now.Add(longestBackoff)):
		return true // the clock was turned back
	default:
		return !at.IsZero() && !at.After(now)
	}
}

// wakeAt returns the earliest time at which any schedule has something to do.
func (s *Scheduler) wakeAt() (first time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		if !e.isBusy {
			first = firstOf(first, e.wakeAt())
		}
	}
	return first
}

// wakeAt returns when a schedule next has something to do. The caller holds the lock of its
// scheduler.
func (e *entry) wakeAt() time.Time {
	if !e.retryAt.IsZero() {
		return e.retryAt
	}
	return e.next
}
