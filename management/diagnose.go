package management

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mongodb/amboy/internal/presence"
	"github.com/mongodb/amboy/queue/driver"
)

const (
	// maxDiagnosed is the largest number of queues that are read.
	maxDiagnosed = 10_000
	// longWait is how long jobs may wait before what keeps them waiting is a finding.
	longWait = 15 * time.Minute
	// soonServed is within what time a live process opens a queue whose jobs become due.
	soonServed = time.Minute
	// longParked is how long jobs may be parked.
	longParked = time.Hour
	// longDrained is how long a queue may be drained.
	longDrained = time.Hour
	// lateTick is how late a tick of a schedule may be.
	lateTick = 5 * time.Minute
	// maxSkew is how much clocks may differ. Stores ignore as much.
	maxSkew = 5 * time.Second
	// manyFinished is the number of finished jobs of a queue from which on they must be
	// removed some time.
	manyFinished = 10_000
	// finishedSample is the number of the latest finished jobs of a queue that are read.
	finishedSample = 100
	// maxSampled is the number of queues in which parked or finished jobs are read.
	maxSampled = 20
	// parkedSample is the number of parked jobs of a queue that are read.
	parkedSample = 100
	// controlEntries is the number of entries of the audit list of a queue that are read.
	controlEntries = 200
)

func (i *inspector) Diagnose(ctx context.Context) (Diagnosis, error) {
	if err := i.check(); err != nil {
		return Diagnosis{}, fmt.Errorf("diagnosing the store: %w", err)
	}
	d := &diagnosis{inspector: i, now: i.store.Now().UTC(), found: []Finding{}}
	err := d.run(ctx)
	order := FindingKinds()
	slices.SortStableFunc(d.found, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(a.Severity, b.Severity), // critical comes first in the alphabet too
			cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)),
			cmp.Compare(a.Subject.Queue, b.Subject.Queue),
		)
	})
	if err != nil {
		err = fmt.Errorf("diagnosing the store: %w", err)
	}
	return Diagnosis{Time: d.now, Queues: len(d.infos), MoreQueues: d.moreQueues, Findings: d.found}, err
}

// diagnosis is a diagnosis that is being made.
type diagnosis struct {
	*inspector
	now   time.Time
	found []Finding
	// condition is what the store reports of itself.
	condition driver.Condition
	// reports are those of processes with queues of this inspector, and alive those of the
	// processes that are alive and have a started queue.
	reports, alive []presence.Process
	// reported is when the last report was read.
	reported time.Time
	// partial are those that are alive and do not report all of their queues.
	partial []presence.Process
	// unreported are the owners of running jobs that renew leases and have not reported
	// themselves.
	unreported []string
	// infos are the queues; moreQueues is true if there are more.
	infos      []driver.QueueInfo
	moreQueues bool
}

// run makes all checks. The store's own condition comes first: it may be why the others fail.
func (d *diagnosis) run(ctx context.Context) error {
	if err := d.store.Refresh(ctx); err != nil {
		return err
	}
	var errs []error
	for _, check := range []func(context.Context) error{
		d.checkStore, d.checkProcesses, d.checkRunning, d.checkQueues, d.checkDeadlocks, d.checkParked, d.checkRetention, d.checkSchedules,
	} {
		if err := check(ctx); err != nil {
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	d.checkClocks()
	return errors.Join(errs...)
}

func (d *diagnosis) add(f Finding) { d.found = append(d.found, f) }

// covers reports whether this inspector has a queue.
func (d *diagnosis) covers(name string) bool { return isNamed(d.store.Queues(), name) }

// checkSchedules finds schedules that fail, and ticks that were missed.
func (d *diagnosis) checkSchedules(ctx context.Context) error {
	schedules, err := d.Schedules(ctx)
	if err != nil {
		return err
	}
	stored, err := d.overdueSchedules(ctx)
	if err != nil {
		return err
	}
	const (
		restart       = "Start a process that runs the schedule. If the schedule was removed on purpose, this finding ends a day after its last report."
		restartStored = "Start a process with a runner of stored schedules, as amboy serve has, or pause or delete the schedule."
	)
	for n, s := range append(schedules, stored...) {
		subject := Subject{InQueue: true, Queue: s.Queue, Schedule: s.Name}
		show, start := "amboy schedules", restart
		if n >= len(schedules) {
			show, start = command("amboy schedules show", s.Queue, s.Name), restartStored
		}
		switch late := d.now.Sub(s.Next); {
		case s.Error != "":
			d.add(Finding{
				Kind: FailingSchedule, Severity: Critical, Subject: subject,
				Detail:  fmt.Sprintf("The job of the tick at %s could not be enqueued: %s.", s.Next.UTC().Format(time.RFC3339), strings.TrimSuffix(cut(s.Error, shownReason), ".")),
				Why:     "The jobs of the schedule are late, or are lost.",
				Remedy:  "Remove the reason: the schedule tries again by itself. The log of its process has the whole error.",
				Command: show,
				Docs:    "docs/guides/schedule-jobs.md",
			})
		case !s.Next.IsZero() && late > lateTick:
			d.add(Finding{
				Kind: MissedSchedule, Severity: Critical, Subject: subject,
				Detail:  fmt.Sprintf("The tick at %s passed %s ago, and its job was not enqueued.", s.Next.UTC().Format(time.RFC3339), agoText(late)),
				Why:     "No process runs the schedule, so that its jobs do not run.",
				Remedy:  start,
				Command: show,
				Docs:    "docs/guides/schedule-jobs.md",
			})
		}
	}
	return nil
}

// overdueSchedules returns the stored schedules that fail, or a tick of which is late: the first
// maxDetailed of them.
func (d *diagnosis) overdueSchedules(ctx context.Context) ([]Schedule, error) {
	var overdue []Schedule
	read, seen := 0, map[string]bool{}
	for note, err := range d.notes(ctx, scheduleHintKind, "") {
		if err != nil {
			return nil, fmt.Errorf("reading the next ticks of stored schedules: %w", err)
		}
		hint, wrong := hintOf(note)
		if wrong != nil {
			logUnreadableNote(ctx, note, wrong)
			continue
		}
		read++
		if hint.at.After(d.now.Add(longestRetry)) || read > maxDiagnosed || len(overdue) == maxDetailed {
			break
		}
		isLate, isRetry := d.now.Sub(hint.at) > lateTick, hint.tick.Before(hint.at)
		if hint.isProbe || seen[hint.key] || !isLate && !isRetry {
			continue
		}
		seen[hint.key] = true
		s, failed := d.overdueSchedule(ctx, hint)
		if failed != nil {
			return nil, fmt.Errorf("reading a stored schedule: %w", failed)
		}
		if s != nil {
			overdue = append(overdue, *s)
		}
	}
	return overdue, nil
}

// overdueSchedule returns the schedule of a hint; nil if nothing is due for it.
func (d *diagnosis) overdueSchedule(ctx context.Context, hint scheduleHint) (*Schedule, error) {
	note, found, err := d.note(ctx, scheduleKind, hint.key)
	if err != nil || !found {
		return nil, err
	}
	var of scheduleDefinition
	err = json.Unmarshal(note.Value, &of)
	if err != nil {
		logUnreadableNote(ctx, note, err)
		return nil, nil
	}
	ticks, errTicks := of.Spec.Ticks() // perhaps a time zone that this machine does not know
	if of.Spec.Paused || !d.covers(of.Queue) || errTicks == nil && !of.isOwnTick(hint.tick, ticks) {
		return nil, nil
	}
	var state scheduleState
	_, err = d.readNote(ctx, scheduleStateKind, hint.key, &state)
	return &Schedule{Queue: of.Queue, Name: of.Name, Next: hint.tick, Error: state.Error}, err
}
