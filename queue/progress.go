package queue

import (
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
)

// markPut makes a job that was put show that. One that was put as completed or as in
// progress keeps that; any other starts anew, whatever it did in an earlier run, with
// its history.
func markPut(j amboy.Job, now time.Time) {
	status, times := j.Status(), j.TimeInfo()
	if isPreset(&status) {
		j.SetStatus(presetStatus(&status))
		j.SetTimeInfo(presetTimes(&status, times, now))
		return
	}
	markNew(j, now)
}

// markNew makes a job that was put start anew.
func markNew(j amboy.Job, now time.Time) {
	times := j.TimeInfo()
	status := j.Status()
	if hasRun(times) || isPreset(&status) {
		j.SetStatus(newStatus(&status, times))
		forgetSnooze(j)
	}
	j.SetTimeInfo(newTimes(times, now))
}

// isPreset is true of the status of a job that is put as completed or as in progress.
func isPreset(status *amboy.JobStatusInfo) bool { return status.Completed || status.InProgress }

// presetStatus is the status of a job that was put as completed or as in progress.
func presetStatus(before *amboy.JobStatusInfo) amboy.JobStatusInfo {
	status := *before
	status.InProgress = !status.Completed
	status.Hold = ""
	if status.InProgress {
		status.Outcome, status.Reason = "", ""
	}
	return status
}

// presetTimes are the times of such a job.
func presetTimes(status *amboy.JobStatusInfo, times amboy.JobTimeInfo, now time.Time) amboy.JobTimeInfo {
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

// newStatus is the status of a job that was put.
func newStatus(before *amboy.JobStatusInfo, times amboy.JobTimeInfo) amboy.JobStatusInfo {
	status := amboy.JobStatusInfo{Attempts: before.Attempts, DroppedErrors: before.DroppedErrors}
	if !hasRun(times) {
		status.Errors, status.ErrorCount = before.Errors, before.ErrorCount
	}
	return status
}

// newTimes are the times of a job that was put. A creation time that is set is
// kept.
func newTimes(times amboy.JobTimeInfo, now time.Time) amboy.JobTimeInfo {
	if times.Created.IsZero() {
		times.Created = now
	}
	times.Start, times.End = time.Time{}, time.Time{}
	return times
}

// markRunning records that a job begins to run under an owner.
func markRunning(j amboy.Job, owner string, now time.Time) {
	status := j.Status()
	status.Owner = owner
	status.InProgress = true
	status.Completed = false
	status.ModificationTime = now
	status.ModificationCount++
	j.SetStatus(status)
	j.UpdateTimeInfo(amboy.JobTimeInfo{Start: now})
}

// markComplete records that an attempt of a job ended. It tells whether the
// attempt succeeded.
func markComplete(j amboy.Job, now time.Time) (succeeded bool) {
	status := j.Status()
	status.InProgress = false
	status.Completed = true
	status.Bound()
	j.SetStatus(status)
	j.UpdateTimeInfo(amboy.JobTimeInfo{End: now})
	return status.ErrorCount == 0 && status.Outcome == ""
}

// markCanceled records that a running job ended because somebody canceled it. One
// that was done by then, without an error, has succeeded.
func markCanceled(j amboy.Job) {
	if j.Error() == nil {
		return
	}
	status := j.Status()
	status.Outcome = amboy.OutcomeCanceled
	j.SetStatus(status)
	doNotRetry(j)
}

// markExpired records that a job did not start by its dispatch-by time.
func markExpired(j amboy.Job) {
	deadline := j.TimeInfo().DispatchBy
	j.AddError(fmt.Errorf("job %q was not started by its dispatch-by time, %s", j.ID(), deadline.Format(time.RFC3339Nano)))
	status := j.Status()
	status.Outcome = amboy.OutcomeExpired
	j.SetStatus(status)
	doNotRetry(j)
}

// markRetried makes a job, whose attempt has ended, its own next attempt.
func markRetried(j amboy.Job, times amboy.JobTimeInfo) {
	status := j.Status()
	j.SetStatus(amboy.JobStatusInfo{Attempts: status.Attempts, DroppedErrors: status.DroppedErrors})
	retry := nextRetryInfo(j.RetryInfo())
	j.UpdateRetryInfo(retry.Options())
	j.SetTimeInfo(times)
	forgetSnooze(j)
}

// forgetSnooze takes back what an earlier run of the same job asked for.
func forgetSnooze(j amboy.Job) {
	if s, ok := j.(amboy.SnoozableJob); ok {
		s.Snooze(time.Time{})
	}
}

// doNotRetry withdraws a job's request for another attempt.
func doNotRetry(j amboy.Job) {
	no := false
	j.UpdateRetryInfo(amboy.JobRetryOptions{NeedsRetry: &no})
}

// forgetRun undoes what an interrupted run did to a job.
func forgetRun(j amboy.Job) {
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
	doNotRetry(j)
	forgetSnooze(j)
}

// isReady is true where a job's dependency need not be asked: it can only say
// Ready.
func isReady(m dependency.Manager, failed []string) bool {
	_, always := m.(*dependency.Always)
	return (always || m == nil) && len(failed) == 0
}

// consult asks a job's dependency whether the job may run, now that its edges
// have ended, of which some failed. The error is the reason where the state is
// Unresolved. A manager may read files, so no lock must be held.
func consult(m dependency.Manager, failed []string) (state dependency.State, reason error) {
	err := errorOfPanic(func() error {
		state, reason = ask(m, failed)
		return nil
	})
	if err != nil {
		return dependency.Unresolved, fmt.Errorf("not run because its dependency of type %q panicked: %w", typeOf(m), err)
	}
	return state, reason
}

// typeOf is the registered type of a dependency manager, or that of Go if it can't say.
func typeOf(m dependency.Manager) (name string) {
	err := errorOfPanic(func() error {
		name = m.Type().Name
		return nil
	})
	if err != nil {
		return fmt.Sprintf("%T", m)
	}
	return name
}

// ask is consult for a manager that does not panic.
func ask(m dependency.Manager, failed []string) (state dependency.State, reason error) {
	if len(failed) > 0 {
		chooser, ok := m.(dependency.FailureChooser)
		if !ok || chooser.OnFailure() != dependency.RunOnFailure {
			return dependency.Unresolved, fmt.Errorf("not run because jobs that it depends on did not succeed: %q", failed)
		}
	}
	if isReady(m, nil) {
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

// infoAt is a job's info with what the queue knows about its progress.
func infoAt(j amboy.Job, now time.Time, amend func(*amboy.JobStatusInfo)) amboy.JobInfo {
	info := amboy.NewJobInfo(j)
	amend(&info.Status)
	info.State = amboy.StateOf(info, now)
	return info
}
