package management

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/presence"
	"github.com/mongodb/amboy/queue/driver"
)

// checkQueues finds queues whose jobs wait although they could run.
func (d *diagnosis) checkQueues(ctx context.Context) error {
	err := d.readQueues(ctx)
	if err != nil {
		return err
	}
	var waiting []driver.QueueInfo
	begun, ready := 0, 0
	for _, info := range d.infos {
		begun += info.Stats.Running + info.Stats.Retrying
		ready += info.Ready()
		if info.Ready() > 0 || info.Scheduled > 0 {
			waiting = append(waiting, info)
		}
	}
	// Stopped and drained queues come first, and then those with the most jobs.
	slices.SortStableFunc(waiting, func(a, b driver.QueueInfo) int {
		return cmp.Or(cmp.Compare(stopped(b), stopped(a)), cmp.Compare(b.Ready(), a.Ready()))
	})
	waiting = waiting[:min(maxDetailed, len(waiting))]
	slices.SortFunc(waiting, func(a, b driver.QueueInfo) int { return cmp.Compare(a.Name, b.Name) })
	queues, err := d.describeQueues(ctx, waiting)
	if err != nil {
		return err
	}
	longest := time.Duration(-1)
	for _, q := range queues {
		if !q.OldestPending.IsZero() {
			longest = max(longest, d.now.Sub(q.OldestPending))
		}
		if err := d.checkQueue(ctx, q); err != nil {
			return err
		}
	}
	d.checkServed(begun, ready, longest)
	return d.checkDrained(ctx, waiting)
}

// readQueues reads the counts and the controls of the queues.
func (d *diagnosis) readQueues(ctx context.Context) (err error) {
	if len(d.store.Queues()) > 0 {
		d.infos, err = d.inspector.infos(ctx)
	} else {
		d.infos, err = d.store.QueueInfos(ctx, driver.QueueRequest{Limit: maxDiagnosed + 1})
	}
	if len(d.infos) > maxDiagnosed {
		d.infos, d.moreQueues = d.infos[:maxDiagnosed], true
	}
	return err
}

// stopped is 1 for a queue in which no job may start, or no job can be put.
func stopped(info driver.QueueInfo) int {
	if info.Control.IsStopped() || info.Control.Draining {
		return 1
	}
	return 0
}

// checkQueue finds why the jobs of a queue wait for long, if they do.
func (d *diagnosis) checkQueue(ctx context.Context, q Queue) error {
	for _, unknown := range q.Unknown {
		d.add(Finding{
			Kind: UnknownType, Severity: Critical, Subject: Subject{InQueue: true, Queue: q.Name, Type: unknown.Type},
			Detail:  fmt.Sprintf("%s of %s, which no live process has registered.", pluralCount(unknown.Jobs, "job waits", "jobs wait"), unknown.JobKind),
			Why:     "The jobs stay until a process starts that knows them.",
			Remedy:  "Register the type in a process that runs the queue, in this version. If it was removed on purpose, mark the jobs complete (amboy jobs complete).",
			Command: command("amboy jobs list --type", unknown.Type, "--queue", q.Name),
			Docs:    "docs/guides/change-stored-jobs.md",
		})
	}
	waited := d.now.Sub(q.OldestPending)
	if q.OldestPending.IsZero() || waited < longWait {
		return nil
	}
	switch {
	case q.Control.Paused:
		text, err := d.controlText(ctx, q.Name, "paused")
		if err != nil {
			return err
		}
		d.add(Finding{
			Kind: PausedQueue, Severity: Critical, Subject: Subject{InQueue: true, Queue: q.Name},
			Detail:  fmt.Sprintf("The queue is paused%s; its oldest job has waited for %s.", text, agoText(waited)),
			Why:     "No job of the queue starts until it is resumed.",
			Remedy:  "Resume the queue if the reason for the pause is gone.",
			Command: command("amboy queues resume", q.Name),
			Docs:    "docs/guides/pause-and-limit-queues.md",
		})
	case q.Control.Rate != nil && q.Control.Rate.PerSecond == 0:
		d.add(Finding{
			Kind: PausedQueue, Severity: Critical, Subject: Subject{InQueue: true, Queue: q.Name},
			Detail:  fmt.Sprintf("The rate of the queue is 0; its oldest job has waited for %s.", agoText(waited)),
			Why:     "No job of the queue starts until its rate is removed or higher.",
			Remedy:  "Remove the rate, or set a higher one, if the reason for it is gone.",
			Command: command("amboy queues set --rate none", q.Name),
			Docs:    "docs/guides/pause-and-limit-queues.md#limit-the-rate-at-which-jobs-start",
		})
	case len(q.Unknown) == 0 && len(d.alive) > 0 && len(d.unreported) == 0 && !d.isServed(q.Name):
		d.add(Finding{
			Kind: NoProcess, Severity: Critical, Subject: Subject{InQueue: true, Queue: q.Name},
			Detail:  fmt.Sprintf("No live process has started the queue; its oldest job has waited for %s.", agoText(waited)),
			Why:     "The jobs of the queue do not run, although other queues are served.",
			Remedy:  "Start the queue in a process, or find out why it was stopped there.",
			Command: "amboy processes",
			Docs:    "docs/guides/diagnose-a-store.md#processes",
		})
	}
	return nil
}

// isServed reports whether a live process has started a queue, or may have and does not report it.
func (d *diagnosis) isServed(name string) bool {
	return slices.ContainsFunc(d.alive, func(p presence.Process) bool {
		return slices.ContainsFunc(p.Queues, func(q presence.Queue) bool { return q.Name == name && q.Started })
	}) || slices.ContainsFunc(d.partial, func(p presence.Process) bool {
		return !slices.ContainsFunc(p.Queues, func(q presence.Queue) bool { return q.Name == name })
	})
}

// checkDrained finds queues that were drained long ago and in which jobs wait.
func (d *diagnosis) checkDrained(ctx context.Context, waiting []driver.QueueInfo) error {
	for _, info := range waiting {
		if !info.Control.Draining {
			continue
		}
		since, err := d.lastControl(ctx, info.Name, "draining")
		if err != nil {
			return err
		}
		began := since.Time
		if began.IsZero() {
			began = info.Used // the control was changed before then
		}
		if began.IsZero() || d.now.Sub(began) < longDrained {
			continue
		}
		d.add(Finding{
			Kind: DrainingQueue, Severity: Critical, Subject: Subject{InQueue: true, Queue: info.Name},
			Detail:  fmt.Sprintf("The queue is draining%s, and %s.", sinceText(since, d.now), plural(info.Stats.Pending, "job waits", "jobs wait")),
			Why:     "No job can be enqueued until it is resumed: calls of Put fail.",
			Remedy:  "Resume the queue if it is to take jobs again.",
			Command: command("amboy queues resume", info.Name),
			Docs:    "docs/guides/pause-and-limit-queues.md",
		})
	}
	return nil
}

func (d *diagnosis) controlText(ctx context.Context, name, what string) (string, error) {
	entry, err := d.lastControl(ctx, name, what)
	return sinceText(entry, d.now), err
}

// sinceText describes when and by whom a queue was paused or drained; empty if it is unknown.
func sinceText(entry AuditEntry, now time.Time) string {
	if entry.Time.IsZero() {
		return ""
	}
	text := fmt.Sprintf(" since %s", agoText(now.Sub(entry.Time)))
	if entry.Actor != "" {
		text += " by " + entry.Actor
	}
	return text
}

// lastControl returns the entry of the audit list by which a paused or drained queue became that. Its
// Time is zero if there is none among the latest entries of the queue: then a program may have done it.
func (i *inspector) lastControl(ctx context.Context, name, what string) (AuditEntry, error) {
	prefix := auditSharePrefix(name)
	notes, err := i.store.Admin().Notes(ctx, driver.NoteRequest{Kind: auditQueueKind, From: prefix, To: prefix + "\x7f", Limit: controlEntries, Last: true})
	if err != nil {
		return AuditEntry{}, fmt.Errorf("reading the audit list of queue %q: %w", name, err)
	}
	for _, note := range notes {
		var entry AuditEntry
		if err := json.Unmarshal(note.Value, &entry); err != nil {
			logUnreadableNote(ctx, note, err)
			continue
		}
		var change map[string]any
		if entry.What != "control" || entry.Error != "" || json.Unmarshal([]byte(entry.Detail), &change) != nil {
			continue
		}
		switch change[what] {
		case true:
			return entry, nil
		case false: // a program has paused or drained it since
			return AuditEntry{}, nil
		}
	}
	return AuditEntry{}, nil
}

// checkParked finds queues with jobs that were parked long ago.
func (d *diagnosis) checkParked(ctx context.Context) error {
	for _, info := range d.mostOf(func(info driver.QueueInfo) int { return info.Parked }) {
		query := driver.Query{Queues: []string{info.Name}, States: []amboy.JobState{amboy.StateParked}, Latest: true}
		found, err := d.store.Admin().Find(ctx, query, driver.PageRequest{Limit: parkedSample})
		if err != nil {
			return fmt.Errorf("finding the parked jobs of queue %q: %w", info.Name, err)
		}
		var first *driver.Record
		for _, r := range found.Records {
			if d.now.Sub(lastMoved(r)) >= longParked && (first == nil || lastMoved(r).Before(lastMoved(first))) {
				first = r
			}
		}
		if first == nil {
			continue
		}
		reason := ""
		if first.Status.Reason != "" {
			reason = ": " + cut(first.Status.Reason, shownReason)
		}
		d.add(Finding{
			Kind: ParkedJobs, Severity: Warning, Subject: Subject{InQueue: true, Queue: info.Name, JobID: first.JobID(), Type: first.Type},
			Detail:  fmt.Sprintf("%s parked; the oldest, %s, was enqueued or ran %s ago%s.", plural(info.Parked, "job is", "jobs are"), first.JobID(), agoText(d.now.Sub(lastMoved(first))), reason),
			Why:     "A parked job never runs and never ends by itself, and the jobs that depend on it wait.",
			Remedy:  "Remove the reason, and release the jobs; or cancel them.",
			Command: command("amboy jobs list --state parked --queue", info.Name),
			Docs:    "docs/guides/find-what-is-stuck.md",
		})
	}
	return nil
}

// lastMoved returns when a parked job last ran or, if it never did, when it was put or was due.
// Stores do not keep when it was parked.
func lastMoved(r *driver.Record) time.Time {
	if since := driver.ReadySince(r.TimeInfo); since.After(r.Status.ModificationTime) {
		return since
	}
	return r.Status.ModificationTime
}

// shownReason is the maximum length of the reason for which a job is parked, in bytes.
const shownReason = 200

// mostOf returns the queues with the highest numbers above 0, up to maxSampled.
func (d *diagnosis) mostOf(number func(driver.QueueInfo) int) []driver.QueueInfo {
	found := slices.DeleteFunc(slices.Clone(d.infos), func(info driver.QueueInfo) bool { return number(info) <= 0 })
	slices.SortStableFunc(found, func(a, b driver.QueueInfo) int { return cmp.Compare(number(b), number(a)) })
	return found[:min(maxSampled, len(found))]
}

// checkRetention finds queues that keep many finished jobs for ever: at least half of the
// latest ones, so that their number grows.
func (d *diagnosis) checkRetention(ctx context.Context) error {
	if d.condition.Bounded {
		return nil
	}
	for _, info := range d.mostOf(func(info driver.QueueInfo) int { return info.Stats.Completed - info.Stats.Retrying - manyFinished + 1 }) {
		query := driver.Query{Queues: []string{info.Name}, States: endedStates, Latest: true}
		found, err := d.store.Admin().Find(ctx, query, driver.PageRequest{Limit: finishedSample, Newest: true})
		if err != nil {
			return fmt.Errorf("finding the finished jobs of queue %q: %w", info.Name, err)
		}
		kept := 0
		for _, r := range found.Records {
			if r.ForgetAt.IsZero() {
				kept++
			}
		}
		if kept == 0 || 2*kept < len(found.Records) {
			continue
		}
		n, err := d.store.Admin().Count(ctx, query, manyFinished)
		if err != nil {
			return fmt.Errorf("counting the finished jobs of queue %q: %w", info.Name, err)
		}
		if n < manyFinished {
			continue
		}
		d.add(Finding{
			Kind: EndlessRetention, Severity: Warning, Subject: Subject{InQueue: true, Queue: info.Name},
			Detail:  fmt.Sprintf("The store has %d finished jobs or more; %d of the latest %d are kept for ever.", n, kept, len(found.Records)),
			Why:     "The store grows without bound, until the disk is full.",
			Remedy:  "Set a Retention in the options of the queue, or of the jobs. It applies to jobs that end from then on; delete the old ones.",
			Command: command("amboy jobs delete --ended-before 30d --queue", info.Name),
			Docs:    "docs/guides/diagnose-a-store.md#retention",
		})
	}
	return nil
}
