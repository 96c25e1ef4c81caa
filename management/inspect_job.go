package management

import (
	"context"
	"fmt"
	"slices"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

func (i *inspector) Job(ctx context.Context, queue, id string) (Job, error) {
	if err := i.check(validQueue(queue), validJobID(id)); err != nil {
		return Job{}, fmt.Errorf("reading a job: %w", err)
	}
	if _, err := i.resolveQueues([]string{queue}); err != nil {
		return Job{}, fmt.Errorf("reading job %q: %w", id, err)
	}
	job, err := i.job(ctx, queue, id)
	if err != nil {
		return Job{}, fmt.Errorf("reading job %q of queue %q: %w", id, queue, err)
	}
	return job, nil
}

func (i *inspector) job(ctx context.Context, queue, id string) (Job, error) {
	r, err := i.get(ctx, queue, id)
	if err != nil {
		return Job{}, err
	}
	job := i.described(ctx, r)
	explained := []JobSummary{job.JobSummary}
	err = i.explainPending(ctx, explained, []*driver.Record{r})
	if err != nil {
		return Job{}, err
	}
	job.JobSummary = explained[0]
	attempts, err := i.store.Admin().Attempts(ctx, queue, id)
	if err != nil {
		return Job{}, fmt.Errorf("reading its attempts: %w", err)
	}
	if len(attempts) == 0 {
		attempts = []*driver.Record{r}
	}
	now := i.store.Now()
	for _, a := range attempts {
		job.Attempts = append(job.Attempts, attemptOf(a, driver.StateOf(a, now)))
	}
	job.AttemptedBy = attemptedBy(r, attempts)
	acts, err := i.operatorMoments(ctx, r)
	if err != nil {
		return Job{}, fmt.Errorf("finding the actions of operators: %w", err)
	}
	job.Timeline = timeline(r, job.Attempts, acts, now)
	var free []string
	if job.Scopes, free, err = i.scopesOf(ctx, r); err != nil {
		return Job{}, fmt.Errorf("finding the holders of its scopes: %w", err)
	}
	if job.DependsOn, job.MoreDependsOn, err = i.dependsOn(ctx, r); err != nil {
		return Job{}, fmt.Errorf("reading the jobs that it depends on: %w", err)
	}
	if job.Dependents, job.MoreDependents, err = i.dependents(ctx, r); err != nil {
		return Job{}, fmt.Errorf("finding the jobs that depend on it: %w", err)
	}
	if job.State == amboy.StateBlocked {
		job.Blocked = i.blocked(&job, r, free, acts)
	}
	if job.Actions, err = i.allows(ctx, r); err != nil {
		return Job{}, fmt.Errorf("finding the actions that it allows: %w", err)
	}
	return job, nil
}

// described returns what the job's latest record contains.
func (i *inspector) described(ctx context.Context, r *driver.Record) Job {
	job := Job{
		JobSummary:    i.summary(r),
		MaxTime:       r.TimeInfo.MaxTime.Seconds(),
		LeaseRenewed:  r.Status.ModificationTime,
		Errors:        slices.Concat([]amboy.AttemptError{}, r.Status.Attempts),
		DroppedErrors: r.Status.DroppedErrors,
		Log:           []amboy.LogLine{},
		Interruptions: r.Status.Interruptions,
		Metadata:      r.Metadata,
		UniqueKey:     r.UniqueKey,
		UniqueStates:  uniqueStates(r),
		Editable:      i.editable(r),
		Revision:      revisionOf(r),
	}
	i.describeContent(ctx, r, &job)
	if r.Progress != nil {
		job.ProgressMessage = r.Progress.Message
		job.Stuck = r.Progress.Stuck
		job.Log = append(job.Log, r.Progress.Log...)
		job.DroppedLines = r.Progress.DroppedLines
	}
	return job
}

// attemptedBy returns the owners of the runs of a job, the oldest first.
func attemptedBy(r *driver.Record, attempts []*driver.Record) []string {
	if r.Foreign != nil && r.Foreign.AttemptedBy != nil {
		return r.Foreign.AttemptedBy
	}
	var owners []string
	for _, a := range attempts {
		if a.Status.Interruptions != nil {
			for _, run := range a.Status.Interruptions.Latest {
				owners = append(owners, run.Owner)
			}
		}
		if a.Status.Owner != "" && !a.TimeInfo.Start.IsZero() {
			owners = append(owners, a.Status.Owner)
		}
	}
	return owners
}

// uniqueStates returns the states in which the unique key of a job counts.
func uniqueStates(r *driver.Record) []amboy.JobState {
	if r.Foreign != nil && r.Foreign.UniqueStates != nil {
		return r.Foreign.UniqueStates
	}
	if r.UniqueKey == "" {
		return nil
	}
	return slices.DeleteFunc(amboy.JobStates(), func(state amboy.JobState) bool { return !r.UniqueUntil.Counts(state) })
}

// describeContent sets the arguments and the result, or why they are hidden.
func (i *inspector) describeContent(ctx context.Context, r *driver.Record, job *Job) {
	job.Encrypted = isEncrypted(r)
	readable, hidden := i.revealed(ctx, r)
	if hidden != "" {
		job.ArgsHidden = hidden
		if r.Result != nil {
			job.ResultHidden = hidden
		}
		return
	}
	job.Args, job.ArgsHidden = argsOf(readable, i.store.ByReference())
	var err error
	if job.Result, err = resultOf(readable); err != nil {
		job.ResultHidden = fmt.Sprintf("the stored result can't be decoded: %v", err)
	}
}

func attemptOf(r *driver.Record, state amboy.JobState) Attempt {
	return Attempt{
		Number:  r.RetryInfo.CurrentAttempt,
		State:   state,
		Owner:   r.Status.Owner,
		Created: r.TimeInfo.Created,
		Started: r.TimeInfo.Start,
		Ended:   r.TimeInfo.End,
		Errors:  r.Status.Errors,
	}
}

// allows lists the actions that the state of a job allows and that would change something.
func (i *inspector) allows(ctx context.Context, r *driver.Record) ([]ActionKind, error) {
	now := i.store.Now()
	state := driver.StateOf(r, now)
	kinds := []ActionKind{}
	for _, kind := range ActionKinds() {
		// The parameters differ from the job's, so that the action would change something. The time is before the deadline.
		action := Action{Kind: kind, Priority: new(r.Priority + 1), At: r.TimeInfo.WaitUntil.AddDate(0, 0, -1)}
		v, _ := i.verdict(action, r, now)
		if v == allowed && kind == Retry && state == amboy.StateBlocked {
			// Of the blocked jobs, only one that was handed back until a time can run now.
			done, err := i.actOnSome(ctx, r.Group, []string{r.JobID()}, []amboy.JobState{state}, action.driverAction(state), true)
			if err != nil {
				return nil, err
			}
			if done == 0 {
				continue
			}
		}
		if v == allowed {
			kinds = append(kinds, kind)
		}
	}
	return kinds, nil
}
