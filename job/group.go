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
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/registry"
)

// errNotReturned is the error of a sub-job that calls runtime.Goexit.
var errNotReturned = errors.New("the job's goroutine ended before Run returned")

// errSubJobSnoozed is the error of a sub-job that wants to run again later: its group
// can't wait for that.
var errSubJobSnoozed = errors.New("it asked to run again later, which a job of a group can't")

var groupType = amboy.JobType{Name: "group", Version: 1}

// alwaysType is the type of dependency manager that a group may have.
var alwaysType = dependency.NewAlways().Type().Name

// Group is a job that runs other jobs, its sub-jobs, in parallel. Make it with
// NewGroup: a zero Group has no ID, so that queues refuse it. It must not be
// changed once it is in a queue.
type Group struct {
	*Base `bson:"metadata" json:"metadata" yaml:"metadata"`

	// Jobs holds the sub-jobs by their IDs, in BSON. After a run it holds what
	// became of them.
	Jobs map[string]*registry.JobInterchange `bson:"jobs" json:"jobs" yaml:"jobs"`
}

// NewGroup makes a group without sub-jobs, whose ID is name.
func NewGroup(name string) *Group {
	g := &Group{Jobs: map[string]*registry.JobInterchange{}}
	g.base().SetID(name)
	return g
}

// base is Base, which it makes where there is none.
func (g *Group) base() *Base {
	if g.Base == nil {
		g.Base = &Base{JobType: groupType}
	}
	return g.Base
}

// ID is the group's ID. That of a zero Group is empty, which no queue accepts.
func (g *Group) ID() string {
	if g.Base == nil {
		return ""
	}
	return g.Base.ID()
}

// SetDependency replaces the group's dependency manager, which must be of type
// "always": a group has edges, and no other condition. Another manager and nil are
// ignored, with a warning in the log. It must be called before Put.
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

// Add adds a sub-job. Later changes of the job do not reach the group. Add
// returns an *amboy.InvalidJobError for a job that no queue accepts, a
// *registry.UnknownTypeError where the job's type is not registered, an error
// for which amboy.IsDuplicateJobError is true where a sub-job has the same ID,
// and an error for a job that can't be encoded. It is not safe for concurrent
// use, and must be called before the group is put.
func (g *Group) Add(j amboy.Job) error {
	if err := amboy.ValidateJob(j); err != nil {
		return fmt.Errorf("adding a job to group %q: %w", g.ID(), err)
	}
	if _, ok := g.Jobs[j.ID()]; ok {
		return amboy.NewDuplicateJobErrorf("adding job %q to group %q: the ID is taken", j.ID(), g.ID())
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

// Run runs the sub-jobs, all at once, and waits for them. What became of each
// is stored in Jobs, and its error is one of the group's errors, with the
// sub-job's ID. A sub-job's own dependency, scopes and retry settings are left
// aside, as in amboy.RunJob, and it can't be snoozed; but a group that is retryable
// asks for another attempt where a sub-job failed, unless amboy.IsNonRetryable is true
// for the errors of all that did. That attempt runs, from new, the sub-jobs that have
// not succeeded.
//
// When ctx ends first, the sub-jobs are told by their contexts, and those that
// have not started are not run. The group then is complete only where every
// sub-job succeeded all the same.
func (g *Group) Run(ctx context.Context) {
	base := g.base()
	ids := slices.Sorted(maps.Keys(g.Jobs))
	errs := make([]error, len(ids))
	after := make([]*registry.JobInterchange, len(ids))
	var running sync.WaitGroup
	for n, id := range ids {
		before := g.Jobs[id]
		after[n], errs[n] = before, errNotReturned
		running.Go(func() { after[n], errs[n] = runSubJob(ctx, before) })
	}
	running.Wait()

	for n, id := range ids {
		g.Jobs[id] = after[n]
		switch err := errs[n]; {
		case amboy.IsNonRetryable(err):
			// That is about this sub-job, and not about the others.
			base.AddError(fmt.Errorf("job %q of group %q: %s", id, g.ID(), err.Error()))
		case err != nil:
			base.AddRetryableError(fmt.Errorf("job %q of group %q: %w", id, g.ID(), err))
		}
	}
	if ctx.Err() == nil || !base.HasErrors() {
		base.MarkComplete()
	}
}

// runSubJob runs a stored job. It returns the job's stored form after that,
// which is the one before where the job was not run or was interrupted, and the
// job's error.
func runSubJob(ctx context.Context, stored *registry.JobInterchange) (*registry.JobInterchange, error) {
	if stored == nil {
		return nil, errors.New("it has no stored form")
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
