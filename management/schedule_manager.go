package management

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/mongodb/amboy/schedule"
)

// ScheduleManager manages the schedules that are stored beside the jobs of their queues. The
// Inspectors of this package are ScheduleManagers, and so is rest.Client. A ScheduleRunner
// enqueues the jobs of the schedules.
//
// A schedule is identified by its queue and its name. The errors are those of an Inspector; that
// of a schedule that does not exist wraps ErrUnknownSchedule.
type ScheduleManager interface {
	// StoredSchedules returns a page of the schedules that a filter selects, ordered by queue and
	// name. They come without their Runs. page.Newest must be false.
	StoredSchedules(ctx context.Context, filter ScheduleFilter, page PageRequest) (StoredSchedulePage, error)
	// StoredSchedule returns everything known about one schedule.
	StoredSchedule(ctx context.Context, queue, name string) (StoredSchedule, error)
	// CreateSchedule stores a schedule. Its ticks count from now. If one with the same
	// specification exists, that is returned; if one with another specification does, the
	// error wraps ErrScheduleExists. The queue must exist, unless the jobs are for workers
	// outside of Go. The error wraps ErrUnsupported if this process can't open the queue.
	CreateSchedule(ctx context.Context, queue, name string, spec ScheduleSpec) (StoredSchedule, error)
	// ChangeSchedule replaces the specification of a schedule. If that changes its ticks, they
	// count from now; ticks whose jobs were not enqueued yet are dropped. If the type stays and there
	// are neither Args nor Bytes, the arguments stay too, because a caller may not see them. A
	// paused schedule stays paused: the caller may have read it before. If the change has a
	// Revision, and the schedule has changed since, the error wraps ErrScheduleChanged.
	ChangeSchedule(ctx context.Context, queue, name string, change ScheduleChange) (StoredSchedule, error)
	// PauseSchedule pauses or resumes a schedule. The ticks in between are dropped, whatever the
	// schedule does about missed ones.
	PauseSchedule(ctx context.Context, queue, name string, paused bool) (StoredSchedule, error)
	// DeleteSchedule removes a schedule and its history. The jobs of its ticks stay.
	DeleteSchedule(ctx context.Context, queue, name string) error
	// TriggerSchedule enqueues a job of a schedule now, even if the schedule is paused. A call with
	// the idempotency key of an earlier one enqueues no other job while the job of that one is kept;
	// an empty key is none.
	TriggerSchedule(ctx context.Context, queue, name, idempotencyKey string) (Created, error)
}

var _ ScheduleManager = (*inspector)(nil)

var (
	// ErrUnknownSchedule is wrapped by the error of a call that names a schedule that does not
	// exist.
	ErrUnknownSchedule = errors.New("no such schedule")
	// ErrScheduleExists is wrapped by the error of CreateSchedule if the name is taken.
	ErrScheduleExists = errors.New("the schedule exists already")
	// ErrScheduleChanged is wrapped by the error of ChangeSchedule if the schedule is not as the
	// caller has read it.
	ErrScheduleChanged = errors.New("the schedule has changed since it was read")
)

// The limits of stored schedules.
const (
	// MaxCatchUp is the largest ScheduleSpec.MaxCatchUp, and its default.
	MaxCatchUp = 1000
	// MaxScheduleRuns is the number of runs that are kept of each schedule, and of triggered runs.
	MaxScheduleRuns = 20
	// MaxScheduleBytes is the maximum size of a stored schedule, most of which are the arguments.
	MaxScheduleBytes = 256 << 10
)

// ScheduleSpec specifies when jobs are enqueued, and which. Either Cron or Every is required.
type ScheduleSpec struct {
	// Cron is an expression as schedule.Cron takes it, and Zone its time zone.
	Cron string `json:"cron,omitempty" maxLength:"1024" description:"A cron expression of five fields, or @daily and the like"`
	Zone string `json:"zone,omitempty" maxLength:"1024" description:"The time zone of the expression, a name of the IANA database; the default is UTC"`
	// Every is the interval between ticks, at least a second, counted from the beginning of 1970.
	Every Duration `json:"every,omitempty" description:"The interval between ticks, at least 1s, in place of cron"`
	// CatchUp is what happens to missed ticks. Default: schedule.CatchUpLatest.
	CatchUp schedule.CatchUp `json:"catch_up,omitempty" enum:"none,latest,all" description:"What happens to ticks that were missed by more than a minute: none of their jobs is enqueued, that of the latest one, or all; the default is latest"`
	// MaxCatchUp is the maximum number of jobs that are enqueued at once for missed ticks, if
	// CatchUp is schedule.CatchUpAll. Default: MaxCatchUp.
	MaxCatchUp int `json:"max_catch_up,omitempty" minimum:"0" maximum:"1000" description:"The maximum number of jobs that are enqueued at once for missed ticks; the default is 1000"`
	// Paused keeps the schedule from enqueuing jobs.
	Paused bool `json:"paused,omitempty"`
	ScheduledJob
}

// ScheduleChange is the new specification of a stored schedule.
type ScheduleChange struct {
	ScheduleSpec
	// Revision is the StoredSchedule.Revision of the schedule as it was read: the change is refused
	// if the schedule has changed since. If it is empty, the change applies to the schedule as it
	// is.
	Revision string `json:"revision,omitempty"`
}

// ScheduledJob describes the jobs of a schedule. Its fields are those of NewJob. A job whose
// UniqueKey is taken when its tick comes is not enqueued.
type ScheduledJob struct {
	Type string `json:"type"`
	// Args are the arguments, as JSON; absent for a job without arguments.
	Args     json.RawMessage `json:"args,omitempty"`
	Priority int             `json:"priority,omitempty"`
	JobOptions
}

// StoredSchedule is a schedule that is kept in the store.
type StoredSchedule struct {
	Queue string `json:"queue"`
	Name  string `json:"name"`
	ScheduleSpec
	// ArgsHidden is why the arguments are not shown; empty if they are.
	ArgsHidden string    `json:"args_hidden,omitempty"`
	Created    time.Time `json:"created"`
	// Changed is when the specification last changed, and Revision identifies it as it is.
	Changed  time.Time `json:"changed"`
	Revision string    `json:"revision"`
	// Next is the next tick; zero if the schedule is paused or has no other tick.
	Next time.Time `json:"next,omitzero"`
	// Last is the latest run; nil if there was none.
	Last *ScheduleRun `json:"last,omitempty"`
	// Error is why the job of a tick could not be enqueued; empty if it was. It is tried again.
	Error string `json:"error,omitempty"`
	// Runs are the latest runs, the latest first: up to MaxScheduleRuns at ticks, and as many that
	// were triggered. Lists omit them.
	Runs []ScheduleRun `json:"runs,omitempty"`
}

// ScheduleRun is a job that a schedule enqueued, or a tick that it missed.
type ScheduleRun struct {
	// Tick is the time of the tick or, if it was triggered, when that happened.
	Tick time.Time `json:"tick"`
	// JobID is the ID of the job, which the queue may have removed since; empty for a missed tick.
	JobID string `json:"job_id,omitempty"`
	// Triggered is true if an operator triggered the run, and false if a tick did.
	Triggered bool `json:"triggered,omitempty"`
	// Missed is true for the first of the ticks that passed without their jobs, which the schedule
	// did not catch up with, and for a tick whose job was not enqueued because its UniqueKey was
	// taken.
	Missed bool `json:"missed,omitempty"`
}

// ScheduleFilter selects stored schedules.
type ScheduleFilter struct {
	Queues []string `json:"queues,omitempty"`
	// Name is a part of the name. Case does not matter.
	Name string `json:"name,omitempty"`
}

// StoredSchedulePage is a page of schedules. A page before the last may have fewer schedules than
// requested, or none.
type StoredSchedulePage struct {
	// Schedules are the schedules of the page, ordered by queue and name.
	Schedules []StoredSchedule `json:"schedules"`
	// Next is the cursor of the next page; empty on the last page.
	Next string `json:"next,omitempty"`
}

// Validate returns an *InvalidArgumentError for each field that is not valid, joined.
func (f ScheduleFilter) Validate() error {
	return errors.Join(validateText("name", f.Name), validateValues("queues", f.Queues, true))
}

// Validate returns an *InvalidArgumentError for each field that is not valid, joined. It does not
// check Args against the type of the job.
func (s ScheduleSpec) Validate() error {
	_, err := s.Ticks()
	errs := []error{err, s.NewJob("", "").Validate()}
	if s.CatchUp != "" && !s.CatchUp.IsValid() {
		errs = append(errs, invalid("catch_up", string(s.CatchUp), `must be "none", "latest" or "all"`))
	}
	if s.MaxCatchUp < 0 || s.MaxCatchUp > MaxCatchUp {
		errs = append(errs, invalid("max_catch_up", fmt.Sprint(s.MaxCatchUp), fmt.Sprintf("must be from 1 to %d, or 0 for %d", MaxCatchUp, MaxCatchUp)))
	}
	return errors.Join(errs...)
}

// Validate returns an *InvalidArgumentError for each field that is not valid, joined.
func (c ScheduleChange) Validate() error {
	err := c.ScheduleSpec.Validate()
	if _, wrong := strconv.ParseInt(c.Revision, 10, 64); c.Revision != "" && wrong != nil {
		err = errors.Join(err, invalid("revision", c.Revision, "must be the revision of a schedule"))
	}
	return err
}

// Ticks returns the schedule that the specification describes. The error is an
// *InvalidArgumentError.
func (s ScheduleSpec) Ticks() (schedule.Schedule, error) {
	var ticks schedule.Schedule
	var err error
	field := "cron"
	switch {
	case (s.Cron != "") == (s.Every != 0):
		return nil, invalid("cron", s.Cron, "must be set, or an interval, and not both")
	case s.Cron != "":
		ticks, err = schedule.Cron(s.Cron, s.Zone)
	case s.Zone != "":
		return nil, invalid("zone", s.Zone, "must not be set for an interval")
	default:
		field = "every"
		ticks, err = schedule.Every(time.Duration(s.Every), time.Time{})
	}
	var wrong *schedule.InvalidError
	if errors.As(err, &wrong) {
		if wrong.Field == "time zone" {
			field = "zone"
		}
		rule := wrong.Rule
		if wrong.Err != nil {
			rule += ": " + wrong.Err.Error()
		}
		return nil, invalid(field, fmt.Sprint(wrong.Value), rule)
	}
	return ticks, err
}

// NewJob returns the job of a tick, with its ID.
func (s ScheduleSpec) NewJob(queue, id string) NewJob {
	return NewJob{Queue: queue, ID: id, Type: s.Type, Args: s.Args, Priority: s.Priority, JobOptions: s.JobOptions}
}

// String describes the ticks.
func (s ScheduleSpec) String() string {
	switch {
	case s.Cron == "":
		return "every " + s.Every.String()
	case s.Zone == "":
		return s.Cron + " UTC"
	default:
		return s.Cron + " " + s.Zone
	}
}

// validSchedule returns an error for a queue or a name that no schedule has.
func validSchedule(queue, name string) error {
	errs := []error{validQueue(queue)}
	var wrong *schedule.InvalidError
	if errors.As(schedule.ValidateName(name), &wrong) {
		errs = append(errs, invalid("name", name, wrong.Rule))
	}
	return errors.Join(errs...)
}
