package crashtest_test

import (
	"context"
	"errors"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/registry"
)

// taskJob does a task and records it in the journal.
type taskJob struct {
	job.Base `bson:"job_base" json:"job_base"`
	Task     task   `bson:"task" json:"task"`
	Result   string `bson:"result" json:"result"`

	journal *journal
}

var taskType = amboy.JobType{Name: "crashtest", Version: 1}

// registerJobs makes the jobs that run in this process write to a journal.
func registerJobs(j *journal) {
	registry.AddJobType(taskType.Name, func() amboy.Job {
		return &taskJob{Base: job.Base{JobType: taskType}, journal: j}
	})
}

func init() { registerJobs(nil) } // for processes that only read jobs

// newJob returns the job of a task.
func newJob(t *task) (*taskJob, error) {
	j := &taskJob{Base: job.Base{JobType: taskType}, Task: *t}
	j.SetID(t.ID)
	j.SetPriority(t.Priority)
	j.SetScopes(t.Scopes)
	if t.EnqueueScope != "" {
		j.SetEnqueueScopes(t.EnqueueScope)
	}
	if t.Failures > 0 {
		retryable := true
		j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: &retryable, WaitUntil: &t.RetryWait})
	}
	var errs []error
	for _, edge := range t.Edges {
		errs = append(errs, j.Dependency().AddEdge(edge))
	}
	if t.RunOnFailure {
		j.Dependency().(dependency.FailureChooser).SetOnFailure(dependency.RunOnFailure)
	}
	return j, errors.Join(errs...)
}

var errPlanned = errors.New("planned failure")

func (j *taskJob) Run(ctx context.Context) {
	defer j.MarkComplete()
	status := j.Status()
	e := event{
		Kind:    began,
		At:      time.Now(),
		Job:     j.ID(),
		Attempt: j.RetryInfo().CurrentAttempt,
		Lease:   status.ModificationCount,
		Claimed: status.ModificationTime,
	}
	j.journal.write(e)
	e.Kind, e.Outcome = ended, j.work(ctx, e.Attempt)
	e.At = time.Now()
	j.journal.write(e)
}

func (j *taskJob) work(ctx context.Context, attempt int) outcome {
	timer := time.NewTimer(j.Task.Work)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		j.AddRetryableError(context.Cause(ctx))
		return interrupted
	}
	switch {
	case attempt < j.Task.Failures:
		j.AddRetryableError(errPlanned)
		return failed
	case j.Task.Fails:
		j.AddError(errPlanned)
		return failed
	default:
		j.Result = resultOf(j.ID())
		return done
	}
}
