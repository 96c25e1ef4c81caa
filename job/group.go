package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/registry"
)

// errNotReturned is the error of a sub-job that calls runtime.Goexit.
var errNotReturned = errors.New("the job's goroutine ended before Run returned")

// errSubJobSnoozed is the error of a sub-job that asked to run again later: its group
// can't wait for that.
var errSubJobSnoozed = errors.New("it asked to be snoozed, which jobs of a group can't be")

var groupType = amboy.JobType{Name: "group", Version: 1}

// alwaysType is the only type of dependency manager that a group may have.
var alwaysType = dependency.NewAlways().Type().Name

// Group is a job that runs other jobs, its sub-jobs, in parallel. Make it with NewGroup: a
// zero Group has no ID, so queues refuse it. It must not be changed once it is in a queue.
type Group struct {
	*Base `bson:"metadata" json:"metadata" yaml:"metadata"`

	// Jobs maps IDs to the sub-jobs, encoded in BSON. After a run it contains their
	// results.
	Jobs map[string]*registry.JobInterchange `bson:"jobs" json:"jobs" yaml:"jobs"`
}

// NewGroup makes a group without sub-jobs and with the ID name.
func NewGroup(name string) *Group {
	g := &Group{Jobs: map[string]*registry.JobInterchange{}}
	g.base().SetID(name)
	return g
}

// base returns Base and creates it if necessary.
func (g *Group) base() *Base {
	if g.Base == nil {
		g.Base = &Base{JobType: groupType}
	}
	return g.Base
}

// ID returns the group's ID. A zero Group has an empty ID, which no queue accepts.
func (g *Group) ID() string {
	if g.Base == nil {
		return ""
	}
	return g.Base.ID()
}

// SetDependency replaces the group's dependency manager, which must be of type "always": a
// group supports edges and no other condition. Any other manager and nil are ignored, with
// a warning in the log. It must be called before Put.
func (g *Group) SetDependency(m dependency.Manager) {
	base, given := g.base(), "nil"
	if m != nil {
		given = m.Type().Name
	}
	if given != alwaysType {
		logging.Warning(context.Background(), message.Fields{
			"message":    "ignored a dependency of a job group that is not of type always",
			"job_id":     g.ID(),
			"dependency": given,
		})
		return
	}
	base.SetDependency(m)
}

// Add adds a copy of a job as a sub-job. It returns an *amboy.InvalidJobError for a job
// that no queue accepts, a *registry.UnknownTypeError if the job's type is not registered,
// an *amboy.DuplicateJobError if a sub-job has the same ID, and an error for a job that can't
// be encoded. It is not safe for concurrent use, and must be called before the group is put.
func (g *Group) Add(j amboy.Job) error {
	if err := amboy.ValidateJob(j); err != nil {
		return fmt.Errorf("adding a job to group %q: %w", g.ID(), err)
	}
	if _, ok := g.Jobs[j.ID()]; ok {
		taken := &amboy.DuplicateJobError{JobID: j.ID(), Reason: amboy.DuplicateID, Value: j.ID(), ExistingID: j.ID()}
		return fmt.Errorf("adding a job to group %q: %w", g.ID(), taken)
	}
	stored, err := registry.MakeJobInterchange(j, amboy.BSON)
	if err != nil {
		return fmt.Errorf("adding job %q to group %q: %w", j.ID(), g.ID(), err)
	}
	g.base()
	if g.Jobs == nil {
		g.Jobs = map[string]*registry.JobInterchange{}
	}
	g.Jobs[j.ID()] = stored
	return nil
}

// Run runs all sub-jobs at once and waits for them. It stores the state of each in Jobs,
// and adds its error, with the sub-job's ID, to the group's errors. As in amboy.RunJob,
// the sub-jobs' dependencies, scopes and retry settings are ignored, and they can't be
// snoozed.
//
// A retryable group asks for another attempt if a sub-job failed, unless
// amboy.IsNonRetryable is true for the errors of all failed sub-jobs. The next attempt
// starts the sub-jobs that have not succeeded from the beginning.
//
// If ctx ends first, the contexts of running sub-jobs end, and sub-jobs that have not
// started do not run. The group is then complete only if every sub-job succeeded.
func (g *Group) Run(ctx context.Context) {
	base := g.base()
	ids := slices.Sorted(maps.Keys(g.Jobs))
	errs := make([]error, len(ids))
	after := make([]*registry.JobInterchange, len(ids))
	var running sync.WaitGroup
	for n, id := range ids {
		before := g.Jobs[id]
		after[n], errs[n] = before, errNotReturned
		running.Go(func() {
			errs[n] = contain.Panic(func() (err error) {
				after[n], err = runSubJob(ctx, before)
				return err
			})
		})
	}
	running.Wait()

	for n, id := range ids {
		g.Jobs[id] = after[n]
		switch err := errs[n]; {
		case amboy.IsNonRetryable(err):
			// Only this sub-job must not be retried, so the group's error does not wrap
			// err.
			base.AddError(fmt.Errorf("job %q of group %q: %s", id, g.ID(), err.Error()))
		case err != nil:
			base.AddRetryableError(fmt.Errorf("job %q of group %q: %w", id, g.ID(), err))
		}
	}
	if ctx.Err() == nil || !base.HasErrors() {
		base.MarkComplete()
	}
}

// runSubJob runs a stored job. It returns the job's new stored form and the job's error.
// If the job was not run or was interrupted, the stored form is unchanged.
func runSubJob(ctx context.Context, stored *registry.JobInterchange) (*registry.JobInterchange, error) {
	if stored == nil {
		return nil, errors.New("the stored form is missing")
	}
	if hasSucceeded(stored) {
		return stored, nil
	}
	if ctx.Err() != nil {
		return stored, fmt.Errorf("not run: %w", context.Cause(ctx))
	}
	j, err := stored.Resolve(amboy.BSON)
	if err != nil {
		return stored, err
	}
	j.SetStatus(amboy.JobStatusInfo{})

	runErr := amboy.RunJob(ctx, j)
	var snooze *amboy.SnoozeError
	if errors.As(runErr, &snooze) {
		runErr = errSubJobSnoozed
	}
	if runErr == nil && ctx.Err() != nil {
		return stored, fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
	after, err := registry.MakeJobInterchange(j, amboy.BSON)
	if err != nil {
		return stored, errors.Join(runErr, err)
	}
	return after, runErr
}

func hasSucceeded(stored *registry.JobInterchange) bool {
	info := amboy.JobInfo{Status: stored.Status}
	return amboy.StateOf(info, time.Now()) == amboy.StateSucceeded
}
