package management

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mongodb/amboy/internal/presence"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// checkProcesses reads the reports of processes, and finds old ones.
func (d *diagnosis) checkProcesses(ctx context.Context) error {
	for report, err := range d.presences(ctx) {
		if err != nil {
			return err
		}
		d.reported = d.store.Now()
		ours := func(q presence.Queue) bool { return d.covers(q.Name) }
		if len(d.store.Queues()) > 0 && !slices.ContainsFunc(report.Queues, ours) && !report.MoreQueues {
			continue
		}
		if d.isAlive(report) && report.MoreQueues {
			d.partial = append(d.partial, report)
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
		Docs:    "docs/guides/stop-and-deploy.md",
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
					Remedy:  "See where it hangs, and correct the code. Then abandon the run: the job runs again, or ends if it was canceled.",
					Command: command("amboy jobs show", s.Queue, s.ID),
					Docs:    "docs/guides/find-what-is-stuck.md#jobs-that-do-not-return",
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
			f.Detail += fmt.Sprintf(" The same is true of %s of the queue.", plural(more, "other job", "other jobs"))
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

// checkServed finds that no process runs jobs, although some have begun or are ready. longest is
// how long a job has been ready; negative if none is. A process that is alive without a started
// queue may be about to open one: a group does so when a job becomes due.
func (d *diagnosis) checkServed(begun, ready int, longest time.Duration) {
	switch {
	case len(d.alive)+len(d.partial)+len(d.unreported) > 0:
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
		Docs:    "docs/guides/diagnose-a-store.md#processes",
	})
}

func (d *diagnosis) isAnyAlive() bool { return slices.ContainsFunc(d.reports, d.isAlive) }

// isAlive reports whether a process has reported itself lately, by the clock of the store: the one
// of this process may be wrong.
func (d *diagnosis) isAlive(p presence.Process) bool {
	return p.Alive(d.now.Add(d.condition.ClockAhead))
}
