package local

import (
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/schedule"
	"github.com/mongodb/amboy/registry"
)

// localView is a snapshot of what a record contains beyond the job itself.
type localView struct {
	jobSnapshot
	waitUntil, dispatchBy time.Time
	held, scopes          []string
	edges                 []string
	failed                []string // failed edges
	unique                *schedule.Unique
	cancelRequested       bool
	// settled is true if the job has ended and its run is over.
	settled bool
}

// view returns a snapshot of an entry. It is called with the lock.
func (q *Queue) view(e *localEntry) localView {
	_, cancelRequested := q.cancels[e]
	return localView{
		jobSnapshot:     q.snapshot(e),
		waitUntil:       e.WaitUntil,
		dispatchBy:      e.DispatchBy,
		held:            q.schedule.Held(e),
		scopes:          e.Scopes.Names(),
		edges:           e.Job.edges(),
		failed:          e.Failed(),
		unique:          e.Unique,
		cancelRequested: cancelRequested,
		settled:         e.Place() == schedule.Finished && e.Job.run.Load().isOver(),
	}
}

// times returns the job's times. WaitUntil and DispatchBy are those of the entry, which
// are newer.
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

// record returns the record of a job.
func (q *Queue) record(v localView) *driver.Record {
	r := v.encoded()
	r.Group = q.ID()
	r.RetryInfo = v.retryInfo()
	if r.RetryInfo.Retryable {
		r.RetryInfo.BaseJobID = v.id
	}
	r.Name = driver.RecordName(q.ID(), v.id, r.RetryInfo)
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
		r.Progress = nil // cleared by a restart
	}
	r.CancelRequested = v.cancelRequested
	return r
}

// encoded returns the part of a record that comes from the job itself. The record
// includes the job's body if the job is settled and can be encoded.
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
