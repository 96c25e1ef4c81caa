package management

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/presence"
	"github.com/mongodb/amboy/internal/printable"
	"github.com/mongodb/amboy/queue"
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
		d.checkStore, d.checkProcesses, d.checkRunning, d.checkQueues, d.checkParked, d.checkRetention, d.checkSchedules,
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

// defects are the severities and reasons of the defects that a store reports, and what to read.
var defects = map[driver.DefectKind]Finding{
	driver.MissingIndex: {
		Kind: MissingIndex, Severity: Critical, Docs: "docs/diagnosing-a-store.md#indexes",
		Why: "Without it, calls read all jobs instead of a few, or the store accepts what it must refuse.",
	},
	driver.LargeLog: {
		Kind: LargeLog, Severity: Warning, Docs: "docs/diagnosing-a-store.md#space",
		Why: "The log fills the disk, and reads become slower.",
	},
	driver.Bloat: {
		Kind: Bloat, Severity: Warning, Docs: "docs/diagnosing-a-store.md#space",
		Why: "Space on the disk is lost, and reads pass over it.",
	},
	driver.OldTransaction: {
		Kind: OldTransaction, Severity: Warning, Docs: "docs/diagnosing-a-store.md#space",
		Why: "Until it ends, the server can't remove dead rows from any table, so that claims become slower and the disk fills.",
	},
}

// checkStore asks the store for its condition. A store that knows nothing about itself has no
// findings.
func (d *diagnosis) checkStore(ctx context.Context) error {
	d.condition.Bounded, d.condition.SharesClock = true, true
	examiner, ok := d.store.Admin().(driver.Examiner)
	if !ok {
		return nil
	}
	condition, err := examiner.Examine(ctx)
	if err != nil {
		return err
	}
	d.condition = condition
	for _, defect := range condition.Defects {
		f := defects[defect.Kind]
		f.Subject.Name, f.Detail, f.Remedy, f.Command = defect.Name, defect.Detail, defect.Remedy, defect.Command
		d.add(f)
	}
	d.checkLeases()
	return nil
}

// checkLeases adds a finding for each queue and owner with expired leases.
func (d *diagnosis) checkLeases() {
	type holder struct{ queue, owner string }
	first := map[holder]driver.ExpiredLease{}
	number := map[holder]int{}
	var holders []holder
	for _, l := range d.condition.Expired {
		if !d.covers(l.Queue) {
			continue
		}
		h := holder{l.Queue, l.Owner}
		if number[h] == 0 {
			first[h] = l
			holders = append(holders, h)
		}
		number[h]++
	}
	for _, h := range holders {
		l := first[h]
		since := "before the machine was last started"
		if !l.Ended.IsZero() {
			since = agoText(d.now.Sub(l.Ended)) + " ago"
		}
		d.add(Finding{
			Kind: ExpiredLease, Severity: Critical,
			Subject: Subject{InQueue: true, Queue: h.queue, JobID: l.JobID, Process: h.owner},
			Detail:  fmt.Sprintf("%s not been renewed by %s; the first, of %s, ran out %s.", plural(number[h], "lease has", "leases have"), h.owner, l.JobID, since),
			Why:     "The process is dead or hangs, and no live process has taken its jobs back: they hold their scopes, and do not end.",
			Remedy:  "Start a process that runs the queue: it takes the jobs back within one and a half times their leases. To let one run at once, abandon its run.",
			Command: command("amboy jobs abandon", h.queue, l.JobID),
			Docs:    "docs/diagnosing-a-store.md#leases",
		})
	}
}

// covers reports whether this inspector has a queue.
func (d *diagnosis) covers(name string) bool { return isNamed(d.store.Queues(), name) }

// checkProcesses reads the reports of processes, and finds old ones.
func (d *diagnosis) checkProcesses(ctx context.Context) error {
	for report, err := range d.presences(ctx) {
		if err != nil {
			return err
		}
		ours := func(q presence.Queue) bool { return d.covers(q.Name) }
		if len(d.store.Queues()) > 0 && !slices.ContainsFunc(report.Queues, ours) {
			continue
		}
		d.reports = append(d.reports, report)
		if d.isAlive(report) && slices.ContainsFunc(report.Queues, func(q presence.Queue) bool { return q.Started && ours(q) }) {
			d.alive = append(d.alive, report)
		}
	}
	for _, p := range d.alive {
		if d.store.ByReference() {
			break // the only process is this one
		}
		if p.Types == nil {
			d.addOld(p.ID, fmt.Sprintf("Process %d on %s does not report which types of jobs it can run, as older versions of this library do.", p.PID, p.Host))
			continue
		}
		for _, kind := range p.Unknown {
			if d.isOlderThan(p, kind) {
				d.addOld(p.ID, fmt.Sprintf("Process %d on %s, started %s ago, knows only older versions of %s, which another process runs.",
					p.PID, p.Host, agoText(d.now.Sub(p.Started)), kind))
				break
			}
		}
	}
	return nil
}

// isOlderThan reports whether a process knows a kind only in older versions, and another
// process knows it.
func (d *diagnosis) isOlderThan(p presence.Process, kind driver.Kind) bool {
	older := func(types []presence.Type, name string, version int) bool {
		return slices.ContainsFunc(types, func(t presence.Type) bool { return t.Name == name && t.To < version })
	}
	return (older(p.Types, kind.Type, kind.Version) || kind.Manager != "" && older(p.Managers, kind.Manager, kind.ManagerVersion)) &&
		slices.ContainsFunc(d.alive, func(other presence.Process) bool { return other.ID != p.ID && other.Knows(kind) })
}

func (d *diagnosis) addOld(process, detail string) {
	d.add(Finding{
		Kind: OldProcess, Severity: Warning, Subject: Subject{Process: process}, Detail: detail,
		Why:     "It can't run all jobs of the other processes, and lacks what they were corrected for.",
		Remedy:  "Finish the deploy: stop the process, and start it with the version of the others.",
		Command: "amboy processes",
		Docs:    "docs/stopping-and-deploying.md",
	})
}

// checkRunning reads the running jobs, and finds stuck ones and processes that have not reported
// themselves.
func (d *diagnosis) checkRunning(ctx context.Context) error {
	reported := map[string]bool{}
	for _, p := range d.reports {
		reported[p.ID] = true
	}
	stuck := map[string]*Finding{}
	number := map[string]int{}
	_, err := d.eachRunning(ctx, func(r *driver.Record) {
		if s := d.summary(r); !s.StuckSince.IsZero() {
			if number[s.Queue] == 0 {
				stuck[s.Queue] = &Finding{
					Kind: StuckJob, Severity: Warning, Subject: Subject{InQueue: true, Queue: s.Queue, JobID: s.ID, Type: s.Type, Process: s.Owner},
					Detail:  fmt.Sprintf("%s should have ended %s ago, and has not returned.", s.ID, agoText(d.now.Sub(s.StuckSince))),
					Why:     "A stuck job holds its scopes and a goroutine of its process until it returns.",
					Remedy:  "See where it hangs, and correct the code. Then abandon the run, so that the job runs again.",
					Command: command("amboy jobs show", s.Queue, s.ID),
					Docs:    "docs/seeing-what-is-stuck.md#jobs-that-do-not-return",
				}
			}
			number[s.Queue]++
		}
		if d.isUnreported(r) && !reported[r.Status.Owner] {
			reported[r.Status.Owner] = true
			d.unreported = append(d.unreported, r.Status.Owner)
			d.addOld(r.Status.Owner, "A process that does not report itself runs jobs: it has the legacy library, or an older version of this one.")
		}
	})
	for name, f := range stuck {
		if more := number[name] - 1; more > 0 {
			f.Detail += fmt.Sprintf(" So %s of the queue.", plural(more, "should another job", "should other jobs"))
		}
		d.add(*f)
	}
	return err
}

// isUnreported reports whether the owner of a running job is a process that renews the job's
// lease. Other jobs may be left from a process that was closed and has deregistered, and outside
// workers do not report themselves.
func (d *diagnosis) isUnreported(r *driver.Record) bool {
	leaseTime := d.store.LeaseTime()
	renewed := r.Status.ModificationTime
	return leaseTime > 0 && d.store.Now().Sub(renewed) < leaseTime/2 && renewed.Sub(r.TimeInfo.Start) > time.Second &&
		!strings.HasPrefix(r.Status.Owner, queue.OutsideOwner)
}

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
		ready += max(0, readyIn(info))
		if readyIn(info) > 0 || info.Scheduled > 0 {
			waiting = append(waiting, info)
		}
	}
	// Paused and drained queues come first, and then those with the most jobs.
	slices.SortStableFunc(waiting, func(a, b driver.QueueInfo) int {
		return cmp.Or(cmp.Compare(stopped(b), stopped(a)), cmp.Compare(readyIn(b), readyIn(a)))
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

// checkServed finds that no process runs jobs, although some have begun or are ready. longest is
// how long a job has been ready; negative if none is. A process that is alive without a started
// queue may be about to open one: a group does so when a job becomes due.
func (d *diagnosis) checkServed(begun, ready int, longest time.Duration) {
	switch {
	case len(d.alive)+len(d.unreported) > 0:
		return
	case begun == 0 && ready == 0 && longest < 0:
		return // no job can run now
	case begun == 0 && d.isAnyAlive() && longest < soonServed:
		return
	}
	var jobs []string
	if ready > 0 {
		jobs = append(jobs, plural(ready, "job is ready", "jobs are ready"))
	}
	if begun > 0 {
		jobs = append(jobs, plural(begun, "job has not ended", "jobs have not ended"))
	}
	if len(jobs) == 0 {
		jobs = []string{"scheduled jobs are due"}
	}
	d.add(Finding{
		Kind: NoProcess, Severity: Critical,
		Detail:  "No live process has a started queue: " + strings.Join(jobs, ", and ") + ".",
		Why:     "Nothing runs until a process starts.",
		Remedy:  "Start the service. If it runs, see whether its clock is right and whether it can write to the store.",
		Command: "amboy processes",
		Docs:    "docs/diagnosing-a-store.md#processes",
	})
}

func (d *diagnosis) isAnyAlive() bool { return slices.ContainsFunc(d.reports, d.isAlive) }

// isAlive reports whether a process has reported itself lately, by the clock of the store: the one
// of this process may be wrong.
func (d *diagnosis) isAlive(p presence.Process) bool {
	return p.Alive(d.now.Add(d.condition.ClockAhead))
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

// stopped is 1 for a paused or drained queue.
func stopped(info driver.QueueInfo) int {
	if info.Control.Paused || info.Control.Draining {
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
			Docs:    "docs/stored-jobs.md",
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
			Docs:    "docs/steering-a-queue.md",
		})
	case len(q.Unknown) == 0 && len(d.alive) > 0 && len(d.unreported) == 0 && !d.isServed(q.Name):
		d.add(Finding{
			Kind: NoProcess, Severity: Critical, Subject: Subject{InQueue: true, Queue: q.Name},
			Detail:  fmt.Sprintf("No live process has started the queue; its oldest job has waited for %s.", agoText(waited)),
			Why:     "The jobs of the queue do not run, although other queues are served.",
			Remedy:  "Start the queue in a process, or find out why it was stopped there.",
			Command: "amboy processes",
			Docs:    "docs/diagnosing-a-store.md#processes",
		})
	}
	return nil
}

// isServed reports whether a live process has started a queue.
func (d *diagnosis) isServed(name string) bool {
	return slices.ContainsFunc(d.alive, func(p presence.Process) bool {
		return slices.ContainsFunc(p.Queues, func(q presence.Queue) bool { return q.Name == name && q.Started })
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
			Why:     "No job can be put in the queue until it is resumed: calls of Put fail.",
			Remedy:  "Resume the queue if it is to take jobs again.",
			Command: command("amboy queues resume", info.Name),
			Docs:    "docs/steering-a-queue.md",
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

// lastControl returns the latest entry of the audit list by which a queue was paused or drained.
// Its Time is zero if there is none among the latest entries of the queue.
func (d *diagnosis) lastControl(ctx context.Context, name, what string) (AuditEntry, error) {
	prefix := auditSharePrefix(name)
	notes, err := d.store.Admin().Notes(ctx, driver.NoteRequest{Kind: auditQueueKind, From: prefix, To: prefix + "\x7f", Limit: controlEntries, Last: true})
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
		if entry.What == "control" && entry.Error == "" && json.Unmarshal([]byte(entry.Detail), &change) == nil && change[what] == true {
			return entry, nil
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
			Detail:  fmt.Sprintf("%s parked; the oldest, %s, was put or ran %s ago%s.", plural(info.Parked, "job is", "jobs are"), first.JobID(), agoText(d.now.Sub(lastMoved(first))), reason),
			Why:     "A parked job never runs and never ends by itself, and the jobs that depend on it wait.",
			Remedy:  "Remove the reason, and release the jobs; or cancel them.",
			Command: command("amboy jobs list --state parked --queue", info.Name),
			Docs:    "docs/seeing-what-is-stuck.md",
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
			Docs:    "docs/diagnosing-a-store.md#retention",
		})
	}
	return nil
}

// checkSchedules finds schedules that fail, and ticks that were missed.
func (d *diagnosis) checkSchedules(ctx context.Context) error {
	schedules, err := d.Schedules(ctx)
	if err != nil {
		return err
	}
	for _, s := range schedules {
		subject := Subject{InQueue: true, Queue: s.Queue, Schedule: s.Name}
		switch late := d.now.Sub(s.Next); {
		case s.Error != "":
			d.add(Finding{
				Kind: FailingSchedule, Severity: Critical, Subject: subject,
				Detail:  fmt.Sprintf("The job of the tick at %s could not be put: %s.", s.Next.UTC().Format(time.RFC3339), strings.TrimSuffix(cut(s.Error, shownReason), ".")),
				Why:     "The jobs of the schedule are late, or are lost.",
				Remedy:  "Remove the reason: the schedule tries again by itself. The log of its process has the whole error.",
				Command: "amboy schedules",
				Docs:    "docs/schedules.md",
			})
		case !s.Next.IsZero() && late > lateTick:
			d.add(Finding{
				Kind: MissedSchedule, Severity: Critical, Subject: subject,
				Detail:  fmt.Sprintf("The tick at %s passed %s ago, and its job was not put.", s.Next.UTC().Format(time.RFC3339), agoText(late)),
				Why:     "No process runs the schedule, so that its jobs do not run.",
				Remedy:  "Start a process that runs the schedule. If the schedule was removed on purpose, this finding ends a day after its last report.",
				Command: "amboy schedules",
				Docs:    "docs/schedules.md",
			})
		}
	}
	return nil
}

// checkClocks compares the clocks of processes with that of the store.
func (d *diagnosis) checkClocks() {
	if d.condition.SharesClock {
		return
	}
	ahead := map[string]time.Duration{}
	for _, p := range d.alive {
		// A report from the past may just be old.
		if by := p.Seen.Sub(d.now.Add(d.condition.ClockAhead)); by > 0 {
			ahead[p.ID] = by
		}
	}
	if len(d.store.Queues()) == 0 {
		for owner, by := range d.condition.OwnersAhead {
			ahead[owner] = by
		}
	}
	for process, by := range ahead {
		if by.Abs() > maxSkew {
			d.addSkew(process, fmt.Sprintf("The clock of process %s is %s the clock of the store.", process, aheadText(by)))
		}
	}
	if here := -d.condition.ClockAhead; here.Abs() > maxSkew {
		name, err := os.Hostname()
		if err != nil {
			name = "this machine" // only its name is unknown
		}
		d.addSkew(name, fmt.Sprintf("The clock of %s, which made this diagnosis, is %s the clock of the store.", name, aheadText(here)))
	}
}

func (d *diagnosis) addSkew(process, detail string) {
	d.add(Finding{
		Kind: ClockSkew, Severity: Warning, Subject: Subject{Process: process}, Detail: detail,
		Why:    "Jobs start too early or too late, the ages that are shown are wrong, and a process may look dead. Leases do not depend on it.",
		Remedy: "Synchronize the clocks of the machines (NTP).",
		Docs:   "docs/diagnosing-a-store.md#clocks",
	})
}

func aheadText(by time.Duration) string {
	if by < 0 {
		return agoText(-by) + " behind"
	}
	return agoText(by) + " ahead of"
}

// agoText formats a duration in its two largest units.
func agoText(d time.Duration) string {
	units := []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}}
	for n, unit := range units {
		if d < unit.length && n < len(units)-1 {
			continue
		}
		text := fmt.Sprint(int64(d/unit.length), unit.name)
		if n+1 < len(units) && d%unit.length >= units[n+1].length {
			text += fmt.Sprint(int64(d%unit.length/units[n+1].length), units[n+1].name)
		}
		return text
	}
	return "" // not reached: the last unit is always used
}

func plural(n int, one, many string) string { return pluralCount(Count{Count: n}, one, many) }

func pluralCount(n Count, one, many string) string {
	switch {
	case n.More:
		return fmt.Sprintf("more than %d %s", n.Count, many)
	case n.Count == 1:
		return "1 " + one
	default:
		return fmt.Sprintf("%d %s", n.Count, many)
	}
}

// command returns a command line for a POSIX shell. Names come from users: they are quoted, and
// a command with a name that can't be printed as it is, or that would be taken for a flag, is
// left out.
func command(text string, args ...string) string {
	for n, arg := range args {
		isFlag := n > 0 && slices.Contains([]string{"--queue"}, arg)
		switch {
		case isFlag:
		case !printable.Is(arg), strings.HasPrefix(arg, "-"):
			return ""
		case arg == "" || strings.Trim(arg, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@%+=,") != "":
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		text += " " + arg
	}
	return text
}
