package management

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/presence"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// Process is a process that has open queues.
type Process struct {
	// ID is the ID by which the process owns jobs.
	ID string `json:"id"`
	// Host is the name of the machine of the process, and PID its process ID there.
	Host string `json:"host"`
	PID  int    `json:"pid"`
	// Started is when the process opened its first queue, and Seen when it last reported
	// itself. Started is zero for a process that does not report itself and is only known
	// by the jobs that it runs.
	Started time.Time `json:"started,omitzero"`
	Seen    time.Time `json:"seen,omitzero"`
	// Alive is false if the process has missed its reports. An outside worker, which does not report
	// itself, is alive while it has the lease of a job.
	Alive bool `json:"alive"`
	// Queues are the queues that the process has open.
	Queues []ProcessQueue `json:"queues"`
	// MoreQueues is true if the process has more queues open than it can report, some 10,000.
	MoreQueues bool `json:"more_queues,omitempty"`
	// Unknown are the kinds of jobs that it has met and can't run.
	Unknown []JobKind `json:"unknown,omitempty"`
	// Running are the jobs that it runs, at most DefaultLimit, and RunningCount is their
	// number.
	Running      []JobSummary `json:"running"`
	RunningCount Count        `json:"running_count"`
}

// ProcessQueue is a queue in a process.
type ProcessQueue struct {
	Name string `json:"name"`
	// Workers is the number of its workers; 0 if its runner does not report it.
	Workers int  `json:"workers"`
	Started bool `json:"started"`
}

// maxScanned is the maximum number of jobs that are read to be counted.
const maxScanned = 10_000

func (i *inspector) Processes(ctx context.Context) ([]Process, error) {
	if err := i.check(); err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	processes, err := i.processes(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	return processes, nil
}

func (i *inspector) processes(ctx context.Context) ([]Process, error) {
	if err := i.store.Refresh(ctx); err != nil {
		return nil, err
	}
	found, err := i.reportedProcesses(ctx)
	if err != nil {
		return nil, err
	}
	if err := i.addRunning(ctx, found); err != nil {
		return nil, err
	}
	processes := []Process{}
	for _, p := range found {
		if len(p.Queues) > 0 || p.MoreQueues || len(p.Running) > 0 || len(i.store.Queues()) == 0 {
			processes = append(processes, *p)
		}
	}
	slices.SortFunc(processes, func(a, b Process) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID))
	})
	return processes, nil
}

// reportedProcesses returns the processes that have reported themselves, by ID. It leaves
// out their queues that are outside this inspector.
func (i *inspector) reportedProcesses(ctx context.Context) (map[string]*Process, error) {
	allowed := i.store.Queues()
	found := map[string]*Process{}
	for report, err := range i.presences(ctx) {
		if err != nil {
			return nil, err
		}
		p := &Process{
			ID: report.ID, Host: report.Host, PID: report.PID, Started: report.Started, Seen: report.Seen,
			Alive: report.Alive(i.store.Now()), Queues: []ProcessQueue{}, MoreQueues: report.MoreQueues, Running: []JobSummary{},
		}
		for _, q := range report.Queues {
			if len(allowed) == 0 || slices.Contains(allowed, q.Name) {
				p.Queues = append(p.Queues, ProcessQueue(q))
			}
		}
		for _, kind := range report.Unknown {
			p.Unknown = append(p.Unknown, kindOf(kind))
		}
		found[p.ID] = p
	}
	return found, nil
}

// presences yields the reports of processes. After an error it yields nothing more.
func (i *inspector) presences(ctx context.Context) iter.Seq2[presence.Process, error] {
	return func(yield func(presence.Process, error) bool) {
		for note, err := range i.notes(ctx, presence.ProcessKind, "") {
			if err != nil {
				yield(presence.Process{}, err)
				return
			}
			var report presence.Process
			if err := presence.Decode(note, &report); err != nil {
				logUnreadableNote(ctx, note, err)
				continue
			}
			if !yield(report, nil) {
				return
			}
		}
	}
}

// addRunning adds the running jobs to their processes. It adds processes that have not
// reported themselves.
func (i *inspector) addRunning(ctx context.Context, found map[string]*Process) error {
	more, err := i.eachRunning(ctx, func(r *driver.Record) {
		p := found[r.Status.Owner]
		if p == nil {
			p = &Process{ID: r.Status.Owner, Queues: []ProcessQueue{}, Running: []JobSummary{}}
			found[p.ID] = p
		}
		i.addRun(p, r)
	})
	for _, p := range found {
		p.RunningCount.More = more
	}
	return err
}

// eachRunning calls visit for the running jobs, up to maxScanned. more is true if there are
// more.
func (i *inspector) eachRunning(ctx context.Context, visit func(*driver.Record)) (more bool, err error) {
	query := driver.Query{Queues: i.store.Queues(), States: []amboy.JobState{amboy.StateRunning}, Latest: true}
	seen := 0
	for r, err := range i.records(ctx, query, driver.PageRequest{Limit: MaxLimit}) {
		if err != nil {
			return false, err
		}
		if seen == maxScanned {
			return true, nil
		}
		seen++
		visit(r)
	}
	return false, nil
}

func (i *inspector) addRun(p *Process, r *driver.Record) {
	p.RunningCount.Count++
	if len(p.Running) < DefaultLimit {
		p.Running = append(p.Running, i.summary(r))
	}
	if !p.Started.IsZero() {
		return
	}
	// The process has not reported itself: the leases of its jobs are all that is known.
	if r.Status.ModificationTime.After(p.Seen) {
		p.Seen = r.Status.ModificationTime
	}
	p.Alive = !isStale(r.Status, i.store.LeaseTime(), i.store.Now()) || p.Alive
}

// isStale reports whether the lease of a job was not renewed within leaseTime. It never is stale if
// leaseTime is 0, because there are no leases, or while an outside worker has the job: such a lease is as
// long as the worker asked for, and the job is handed back once it has run out.
func isStale(status amboy.JobStatusInfo, leaseTime time.Duration, now time.Time) bool {
	return leaseTime > 0 && !isOfOutsideWorker(status) && now.Sub(status.ModificationTime) > leaseTime
}

// isOfOutsideWorker reports whether an outside worker runs a job.
func isOfOutsideWorker(status amboy.JobStatusInfo) bool {
	return status.InProgress && strings.HasPrefix(status.Owner, queue.OutsideOwner)
}
