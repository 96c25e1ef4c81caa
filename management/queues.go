package management

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/presence"
	"github.com/mongodb/amboy/queue/driver"
)

// Queue describes a queue.
type Queue struct {
	// Name is the name of the queue in the store, or the ID of a queue that has none.
	Name    string  `json:"name"`
	Control Control `json:"control"`
	Counts  Counts  `json:"counts"`
	// OldestPending is the time since which the first pending job could have started;
	// zero if no job is pending. A list has it for the hundred of its queues with the most
	// pending jobs that are not blocked.
	OldestPending time.Time `json:"oldest_pending,omitzero"`
	// Unknown are the kinds of waiting jobs that no live process can run. A list
	// has them for the hundred of its queues with the most pending jobs.
	Unknown []UnknownJobs `json:"unknown,omitempty"`
}

// QueueFilter selects queues. Empty fields match everything; non-empty fields are ANDed.
type QueueFilter struct {
	// Name is a part of the name of the queue. Case does not matter.
	Name string `json:"name,omitempty"`
	// Queues are names of queues. Queues that do not exist are left out.
	Queues []string `json:"queues,omitempty"`
}

// QueuePage is a page of queues.
type QueuePage struct {
	// Queues are the queues of the page, ordered by name.
	Queues []Queue `json:"queues"`
	// Next is the cursor of the next page; empty on the last page.
	Next string `json:"next,omitempty"`
}

// MaxBusiest is the largest number of queues in QueueTotals.Busiest.
const MaxBusiest = 100

// QueueTotals describes all queues together.
type QueueTotals struct {
	// Queues is the number of queues that the store has. A queue without jobs and settings
	// may be open in a process, and so be listed, before the store has it.
	Queues int `json:"queues"`
	// Counts are the sums over all queues.
	Counts Counts `json:"counts"`
	// Busiest are the queues with the most jobs that have not ended for good, at most
	// MaxBusiest, in descending order of that number.
	Busiest []Queue `json:"busiest"`
}

// Counts counts the jobs of a queue.
type Counts struct {
	// Pending counts the jobs that have not started: due, scheduled, blocked or parked.
	Pending int `json:"pending"`
	// Blocked counts the pending jobs that wait for a scope or a dependency.
	Blocked int `json:"blocked"`
	// Running counts the running jobs.
	Running int `json:"running"`
	// Retrying counts the completed attempts that await a retry.
	Retrying int `json:"retrying"`
	// Completed counts the attempts that have ended, including Retrying and removed jobs.
	Completed int `json:"completed"`
	// Total is Pending + Running + Completed.
	Total int `json:"total"`
}

// Unfinished counts the jobs that have not ended for good.
func (c Counts) Unfinished() int { return c.Pending + c.Running + c.Retrying }

const (
	// maxDetailed is the number of queues of a list for which are found the oldest pending job
	// and the unknown kinds.
	maxDetailed = 100
	// oldestConcurrency is the number of queries for the oldest job that run at once.
	oldestConcurrency = 4
)

func (i *inspector) Queues(ctx context.Context) ([]Queue, error) {
	if err := i.check(); err != nil {
		return nil, fmt.Errorf("listing queues: %w", err)
	}
	queues, err := i.queues(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing queues: %w", err)
	}
	return queues, nil
}

func (i *inspector) queues(ctx context.Context) ([]Queue, error) {
	infos, err := i.infos(ctx)
	if err != nil {
		return nil, err
	}
	return i.describeQueues(ctx, infos)
}

// infos describes the queues of this inspector, by name.
func (i *inspector) infos(ctx context.Context) ([]driver.QueueInfo, error) {
	allowed := i.store.Queues()
	if len(allowed) == 0 {
		return i.store.QueueInfos(ctx, driver.QueueRequest{})
	}
	var infos []driver.QueueInfo
	for _, name := range slices.Sorted(slices.Values(allowed)) {
		info, err := i.info(ctx, name)
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// info describes a queue, which may not exist.
func (i *inspector) info(ctx context.Context, name string) (driver.QueueInfo, error) {
	found, err := i.store.Admin().Queues(ctx, driver.QueueRequest{From: name, Limit: 1})
	if err != nil || len(found) == 0 || found[0].Name != name {
		return driver.QueueInfo{Name: name}, err
	}
	return found[0], nil
}

func (i *inspector) Queue(ctx context.Context, name string) (Queue, error) {
	if err := i.check(validQueue(name)); err != nil {
		return Queue{}, fmt.Errorf("describing a queue: %w", err)
	}
	q, err := i.queue(ctx, name)
	if err != nil {
		return Queue{}, fmt.Errorf("describing queue %q: %w", name, err)
	}
	return q, nil
}

func (i *inspector) queue(ctx context.Context, name string) (Queue, error) {
	if err := i.checkQueueExists(ctx, name); err != nil {
		return Queue{}, err
	}
	info, err := i.info(ctx, name)
	if err != nil {
		return Queue{}, err
	}
	one, err := i.describeQueues(ctx, []driver.QueueInfo{info})
	if err != nil {
		return Queue{}, err
	}
	return one[0], nil
}

func queueOf(info driver.QueueInfo, workers int) Queue {
	return Queue{
		Name:    info.Name,
		Control: controlOf(info.Control, workers),
		Counts:  countsOf(info.Stats),
	}
}

func controlOf(c driver.Control, workers int) Control {
	return Control{Paused: c.Paused, Draining: c.Draining, MaxRunning: c.MaxRunning, Rate: c.Rate, Types: c.Types, Workers: workers}
}

func countsOf(s amboy.QueueStats) Counts {
	return Counts{
		Pending: s.Pending, Blocked: s.Blocked, Running: s.Running, Retrying: s.Retrying, Completed: s.Completed, Total: s.Total,
	}
}

// setOldest sets OldestPending for the queues with the most jobs that can start, and then for
// those with the most scheduled jobs, some of which may be due. infos describe the queues in the
// same order.
func (i *inspector) setOldest(ctx context.Context, queues []Queue, infos []driver.QueueInfo) error {
	var ready []int // positions in queues
	for n, info := range infos {
		if info.Ready() > 0 || info.Scheduled > 0 {
			ready = append(ready, n)
		}
	}
	slices.SortStableFunc(ready, func(a, b int) int {
		return cmp.Or(cmp.Compare(infos[b].Ready(), infos[a].Ready()), cmp.Compare(infos[b].Scheduled, infos[a].Scheduled))
	})
	ready = ready[:min(maxDetailed, len(ready))]
	if len(ready) == 0 {
		return nil
	}
	var queries sync.WaitGroup
	parts := slices.Collect(slices.Chunk(ready, (len(ready)+oldestConcurrency-1)/oldestConcurrency))
	errs := make([]error, len(parts))
	for n, part := range parts {
		queries.Go(func() {
			defer func() {
				if value := recover(); value != nil { // a driver may panic
					errs[n] = fmt.Errorf("finding the oldest jobs of %d queues: %w", len(part), &amboy.PanicError{Value: value, Stack: debug.Stack()})
				}
			}()
			errs[n] = i.setOldestOf(ctx, queues, infos, part)
		})
	}
	queries.Wait()
	return cmp.Or(errs...)
}

// setOldestOf sets OldestPending for the queues at some positions.
func (i *inspector) setOldestOf(ctx context.Context, queues []Queue, infos []driver.QueueInfo, at []int) error {
	names := make([]string, len(at))
	for n, position := range at {
		names[n] = queues[position].Name
	}
	since, err := i.store.Admin().OldestReady(ctx, names, i.store.Now())
	if err != nil {
		return err
	}
	for _, position := range at {
		q := &queues[position]
		var found bool
		q.OldestPending, found = since[q.Name]
		if !found && infos[position].Ready() > 0 { // all its ready jobs may be of a legacy process, which no claim has read
			q.OldestPending, err = i.oldest(ctx, q.Name)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// oldest returns the time since which the first job of a queue could have started.
func (i *inspector) oldest(ctx context.Context, queue string) (time.Time, error) {
	query := driver.Query{Queues: []string{queue}, States: []amboy.JobState{amboy.StatePending}, Latest: true}
	for r, err := range i.records(ctx, query, driver.PageRequest{Limit: 1}) {
		if err != nil {
			return time.Time{}, fmt.Errorf("finding the oldest job of queue %q: %w", queue, err)
		}
		return driver.ReadySince(r.TimeInfo), nil
	}
	return time.Time{}, nil
}

// workersOf returns the number of workers that was set for a queue; 0 if none was.
func (i *inspector) workersOf(ctx context.Context, queue string) (int, error) {
	key := presence.WorkersKey(queue)
	found, err := i.store.Admin().Notes(ctx, driver.NoteRequest{Kind: presence.WorkersKind, From: key, To: key + "\x00", Limit: 1})
	if err != nil || len(found) == 0 {
		return 0, err
	}
	_, n, err := presence.WorkersOf(found[0])
	if err != nil {
		logUnreadableNote(ctx, found[0], err)
	}
	return n, nil
}
