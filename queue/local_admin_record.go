package queue

import (
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/schedule"
	"github.com/mongodb/amboy/registry"
)

// localView is what a record tells of a job beyond what the job does, as it was at
// some moment.
type localView struct {
	seen
	id                    string
	waitUntil, dispatchBy time.Time
	held, scopes          []string
	failed                []string // edges
	unique                *schedule.Unique
	cancelRequested       bool
	// settled is true for a job that has ended, and whose run is over.
	settled bool
}

// view is called with the lock.
func (q *local) view(e *localEntry) localView {
	_, cancelRequested := q.cancels[e]
	return localView{
		seen:            q.see(e),
		id:              e.ID,
		waitUntil:       e.WaitUntil,
		dispatchBy:      e.DispatchBy,
		held:            q.schedule.Held(e),
		scopes:          e.Scopes,
		failed:          e.Failed(),
		unique:          e.Unique,
		cancelRequested: cancelRequested,
		settled:         e.Place() == schedule.Finished && e.Job.run.Load().isOver(),
	}
}

// times are those of the job, of which the queue knows better when it may start.
func (v *localView) times() amboy.JobTimeInfo {
	times := v.job.TimeInfo()
	times.WaitUntil, times.DispatchBy = v.waitUntil, v.dispatchBy
	return times
}

func (v *localView) state(now time.Time) amboy.JobState {
	info := amboy.JobInfo{Status: v.job.Status(), Time: v.times()}
	schedule.Describe(&info.Status, v.place, v.block)
	return amboy.StateOf(info, now)
}

// record makes the record of a job.
func (q *local) record(v localView) *driver.Record {
	r := v.encoded()
	r.Group = q.id
	r.RetryInfo = v.job.RetryInfo()
	if r.RetryInfo.Retryable {
		r.RetryInfo.BaseJobID = v.id
	}
	r.Name = driver.RecordName(q.id, v.id, r.RetryInfo)
	r.Status, r.TimeInfo = v.job.Status(), v.times()
	schedule.Describe(&r.Status, v.place, v.block)
	if v.reason != "" {
		r.Status.Reason = v.reason
	}
	r.Priority, r.Tags = v.priority, v.tags
	r.Scopes, r.RequiredScopes = v.held, v.scopes
	r.EnqueueScopes, r.EnqueueAllScopes = v.job.EnqueueScopes(), v.job.EnqueueAllScopes()
	r.UniqueKey, r.UniqueUntil = v.unique.Split()
	r.Metadata = amboy.MetadataOf(v.job)
	r.Progress = amboy.ProgressOf(v.job)
	if r.Progress != nil && r.Progress.Time.IsZero() && r.Progress.Stuck == nil {
		r.Progress = nil // it was taken back, by a restart
	}
	r.CancelRequested = v.cancelRequested
	return r
}

// encoded returns what of a record the job itself says: with its body, where it is
// settled and can be encoded.
func (v *localView) encoded() *driver.Record {
	if v.settled {
		if r, err := registry.MakeJobInterchange(v.job, amboy.JSON); err == nil {
			if r.Dependency != nil && len(v.failed) > 0 {
				dependency := *r.Dependency
				dependency.Failed = v.failed
				r.Dependency = &dependency
			}
			return r
		}
	}
	jobType := v.job.Type()
	r := &driver.Record{Type: jobType.Name, Version: jobType.Version}
	if m := v.job.Dependency(); m != nil {
		managerType := m.Type()
		r.Dependency = &registry.DependencyInterchange{
			Type:    managerType.Name,
			Version: managerType.Version,
			Edges:   m.Edges(),
			Failed:  v.failed,
		}
	}
	return r
}
