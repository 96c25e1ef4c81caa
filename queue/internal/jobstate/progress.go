package jobstate

import (
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/queue/driver"
)

// MarkPut sets the status and times of a job that is put. A job that is put as completed
// or as in progress keeps its state. Any other job starts anew, and keeps only its
// attempt history.
func MarkPut(j amboy.Job, now time.Time) {
	status, times := j.Status(), j.TimeInfo()
	if IsPreset(&status) {
		j.SetStatus(PresetStatus(&status))
		j.SetTimeInfo(PresetTimes(&status, times, now))
		return
	}
	MarkNew(j, now)
}

// MarkNew resets a job that is put, so that it starts anew.
func MarkNew(j amboy.Job, now time.Time) {
	times := j.TimeInfo()
	status := j.Status()
	if hasRun(times) || IsPreset(&status) {
		j.SetStatus(NewStatus(&status, times))
		ForgetSnooze(j)
	}
	j.SetTimeInfo(NewTimes(times, now))
}

// IsPreset reports whether a job is put as completed or as in progress.
func IsPreset(status *amboy.JobStatusInfo) bool { return status.Completed || status.InProgress }

// PresetStatus returns the status of a job that is put as completed or as in progress.
func PresetStatus(before *amboy.JobStatusInfo) amboy.JobStatusInfo {
	status := *before
	status.InProgress = !status.Completed
	status.Hold = ""
	if status.InProgress {
		status.Outcome, status.Reason = "", ""
	}
	return status
}

// PresetTimes returns the times of a job that is put as completed or as in progress.
func PresetTimes(status *amboy.JobStatusInfo, times amboy.JobTimeInfo, now time.Time) amboy.JobTimeInfo {
	if times.Created.IsZero() {
		times.Created = now
	}
	switch {
	case !status.Completed:
		times.End = time.Time{}
	case times.End.IsZero():
		times.End = now
	}
	return times
}

func hasRun(times amboy.JobTimeInfo) bool { return !times.Start.IsZero() }

// NewStatus returns the status of a job that starts anew.
func NewStatus(before *amboy.JobStatusInfo, times amboy.JobTimeInfo) amboy.JobStatusInfo {
	status := amboy.JobStatusInfo{Attempts: before.Attempts, DroppedErrors: before.DroppedErrors}
	if !hasRun(times) {
		status.Errors, status.ErrorCount = before.Errors, before.ErrorCount
	}
	return status
}

// NewTimes returns the times of a job that starts anew. A creation time that is set is
// kept.
func NewTimes(times amboy.JobTimeInfo, now time.Time) amboy.JobTimeInfo {
	if times.Created.IsZero() {
		times.Created = now
	}
	times.Start, times.End = time.Time{}, time.Time{}
	return times
}

// MarkRunning records that an owner starts to run a job.
func MarkRunning(j amboy.Job, owner string, now time.Time) {
	status := j.Status()
	status.Owner = owner
	status.InProgress = true
	status.Completed = false
	status.ModificationTime = now
	status.ModificationCount++
	j.SetStatus(status)
	j.UpdateTimeInfo(amboy.JobTimeInfo{Start: now})
}

// MarkComplete records that an attempt of a job ended. It reports whether the attempt
// succeeded.
func MarkComplete(j amboy.Job, now time.Time) (succeeded bool) {
	status := j.Status()
	status.InProgress = false
	status.Completed = true
	status.Bound()
	j.SetStatus(status)
	j.UpdateTimeInfo(amboy.JobTimeInfo{End: now})
	return status.ErrorCount == 0 && status.Outcome == ""
}

// MarkCanceled records that a running job was canceled. A job that returned without an
// error has succeeded all the same.
func MarkCanceled(j amboy.Job) {
	if j.Error() == nil {
		return
	}
	status := j.Status()
	status.Outcome = amboy.OutcomeCanceled
	j.SetStatus(status)
	DoNotRetry(j)
}

// MarkExpired records that a job did not start by its dispatch-by time.
func MarkExpired(j amboy.Job) {
	deadline := j.TimeInfo().DispatchBy
	j.AddError(fmt.Errorf("job %q was not started by its dispatch-by time, %s", j.ID(), deadline.Format(time.RFC3339Nano)))
	status := j.Status()
	status.Outcome = amboy.OutcomeExpired
	if n := len(status.Attempts); n > 0 { // it was claimed, but did not run
		status.Attempts = slices.Clone(status.Attempts)
		status.Attempts[n-1].Started = time.Time{}
	}
	j.SetStatus(status)
	DoNotRetry(j)
}

// MarkRetried turns a job whose attempt has ended into its own next attempt.
func MarkRetried(j amboy.Job, times amboy.JobTimeInfo) {
	status := j.Status()
	j.SetStatus(amboy.JobStatusInfo{Attempts: status.Attempts, DroppedErrors: status.DroppedErrors})
	retry := nextRetryInfo(j.RetryInfo())
	j.UpdateRetryInfo(retry.Options())
	j.SetTimeInfo(times)
	ForgetSnooze(j)
}

// ForgetSnooze clears a snooze that an earlier run of the same job value requested.
func ForgetSnooze(j amboy.Job) {
	if s, ok := j.(amboy.SnoozableJob); ok {
		s.Snooze(time.Time{})
	}
}

// DoNotRetry withdraws a job's request for another attempt.
func DoNotRetry(j amboy.Job) {
	no := false
	j.UpdateRetryInfo(amboy.JobRetryOptions{NeedsRetry: &no})
}

// ForgetRun undoes what an interrupted run changed in a job's state.
func ForgetRun(j amboy.Job) {
	status := j.Status()
	attempt := j.RetryInfo().CurrentAttempt
	kept := status.Attempts[:0:0]
	for _, failure := range status.Attempts {
		if failure.Attempt != attempt {
			kept = append(kept, failure)
		}
	}
	status.Attempts = kept
	status.Errors, status.ErrorCount = nil, 0
	status.InProgress, status.Completed = false, false
	status.Owner, status.Outcome = "", ""
	j.SetStatus(status)
	times := j.TimeInfo()
	times.Start = time.Time{}
	j.SetTimeInfo(times)
	DoNotRetry(j)
	ForgetSnooze(j)
}

// IsReady reports whether a job may run without a call of its dependency manager, because
// the manager could only return Ready.
func IsReady(m dependency.Manager, failed []string) bool {
	_, always := m.(*dependency.Always)
	return (always || m == nil) && len(failed) == 0
}

// Consult asks a job's dependency manager whether the job may run. Its edges have ended,
// and failed lists those that failed. If state is Unresolved, reason says why. The caller
// must hold no lock, because a manager may read files.
func Consult(m dependency.Manager, failed []string) (state dependency.State, reason error) {
	err := contain.Panic(func() error {
		state, reason = ask(m, failed)
		return nil
	})
	if err != nil {
		return dependency.Unresolved, fmt.Errorf("not run because its dependency of type %q panicked: %w", typeOf(m), err)
	}
	return state, reason
}

// typeOf returns the registered type of a dependency manager, or its Go type if Type
// panics.
func typeOf(m dependency.Manager) (name string) {
	err := contain.Panic(func() error {
		name = m.Type().Name
		return nil
	})
	if err != nil {
		return fmt.Sprintf("%T", m)
	}
	return name
}

// ask is Consult without the recovery of panics.
func ask(m dependency.Manager, failed []string) (state dependency.State, reason error) {
	if len(failed) > 0 {
		chooser, ok := m.(dependency.FailureChooser)
		if !ok || chooser.OnFailure() != dependency.RunOnFailure {
			return dependency.Unresolved, fmt.Errorf("not run because jobs that it depends on did not succeed: %q", failed)
		}
	}
	if IsReady(m, nil) {
		return dependency.Ready, nil
	}
	state = m.State()
	if state == dependency.Unresolved || !dependency.IsValidState(state) {
		return dependency.Unresolved, unresolved(m, state)
	}
	return state, nil
}

func unresolved(m dependency.Manager, state dependency.State) error {
	if explainer, ok := m.(dependency.Explainer); ok && explainer.Explain() != "" {
		return fmt.Errorf("not run because its dependency of type %q is %s: %s", m.Type().Name, state, explainer.Explain())
	}
	return fmt.Errorf("not run because its dependency of type %q is %s", m.Type().Name, state)
}

// InfoAt returns a job's info, after amend has added to it what the queue knows.
func InfoAt(j amboy.Job, now time.Time, amend func(*amboy.JobInfo)) amboy.JobInfo {
	info := amboy.NewJobInfo(j)
	amend(&info)
	info.State = amboy.StateOf(info, now)
	info.Explain(func() bool { return amboy.RunsHere(j) })
	return info
}

// TimesOf returns how long an attempt waited and ran.
func TimesOf(times amboy.JobTimeInfo) (wait, run time.Duration) {
	if times.Start.IsZero() {
		return activity.NotRun, activity.NotRun
	}
	return times.Waited(), times.Duration()
}

// ShowStuck adds to a job's progress that its run is stuck, and returns the progress.
func ShowStuck(j amboy.Job, stuck amboy.StuckRun) amboy.JobProgress {
	var progress amboy.JobProgress
	if said := amboy.ProgressOf(j); said != nil {
		progress = *said
	}
	progress = progress.WithStuck(stuck)
	if p, ok := j.(amboy.ProgressJob); ok {
		p.SetProgress(progress)
	}
	return progress
}

// NotTooSoon returns until, or the earliest time to which a job can be snoozed.
func NotTooSoon(until, now time.Time) time.Time {
	if soonest := now.Add(amboy.MinSnooze); until.Before(soonest) {
		return soonest
	}
	return until
}

// RateChange returns the change that sets a rate, or removes it if it is nil.
func RateChange(r *amboy.Rate) (driver.ControlChange, error) {
	change := driver.ControlChange{Rate: r, NoRate: r == nil}
	return change, change.Validate()
}

// SnoozeReason is the reason in the status of a snoozed job.
const SnoozeReason = "it asked to run again later"
