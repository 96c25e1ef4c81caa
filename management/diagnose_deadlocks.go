package management

import (
	"context"
	"fmt"
	"slices"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

const (
	// deadlockSample is the number of blocked jobs of a queue that hold scopes from which deadlocks
	// are searched.
	deadlockSample = 100
	// maxWaitsRead is the number of jobs of a queue whose waits are read.
	maxWaitsRead = 300
	// shownWaits is the maximum number of waits that a finding describes.
	shownWaits = 5
)

// checkDeadlocks finds jobs that wait for each other. Put refuses edges that form a cycle, so that it begins
// with jobs that took a scope when they were put.
func (d *diagnosis) checkDeadlocks(ctx context.Context) error {
	for _, info := range d.mostOf(func(info driver.QueueInfo) int { return info.Stats.Blocked }) {
		holders, err := d.blockedHolders(ctx, info.Name)
		if err != nil {
			return fmt.Errorf("finding the blocked jobs of queue %q that hold scopes: %w", info.Name, err)
		}
		search := &deadlockSearch{inspector: d.inspector, queue: info.Name, seen: map[string]bool{}, holders: map[string]*driver.Record{}}
		for _, r := range holders {
			for {
				cycle, err := search.from(ctx, r, nil)
				if err != nil {
					return fmt.Errorf("finding what jobs of queue %q wait for: %w", info.Name, err)
				}
				if len(cycle) == 0 {
					break
				}
				d.addDeadlock(cycle)
			}
		}
	}
	return nil
}

// blockedHolders returns the first blocked jobs of a queue that hold scopes.
func (d *diagnosis) blockedHolders(ctx context.Context, queue string) ([]*driver.Record, error) {
	query := driver.Query{Queues: []string{queue}, States: []amboy.JobState{amboy.StateBlocked}, Holding: true, Latest: true}
	page := driver.PageRequest{Limit: deadlockSample}
	var holders []*driver.Record
	for range maxHolderPages { // a page may be short although others follow
		found, err := d.store.Admin().Find(ctx, query, page)
		if err != nil {
			return nil, err
		}
		holders = append(holders, found.Records...)
		if found.Next == "" || len(holders) >= deadlockSample {
			break
		}
		page.After = found.Next
	}
	return holders, nil
}

// addDeadlock adds a finding about jobs that wait for each other. Canceling any of them lets the others go on.
func (d *diagnosis) addDeadlock(cycle []wait) {
	first := cycle[0].job
	d.add(Finding{
		Kind: Deadlock, Severity: Critical, Subject: Subject{InQueue: true, Queue: first.Group, JobID: first.JobID(), Type: first.Type},
		Detail:  waitsText(cycle),
		Why:     "These jobs never run, nor do the jobs that wait for one of them or for its scopes.",
		Remedy:  "Cancel one of them. Let none take a scope at Put that a job it depends on needs, and let jobs that share several scopes take the same ones at Put.",
		Command: command("amboy jobs cancel", first.Group, first.JobID()),
		Docs:    "docs/guides/lock-with-scopes.md#take-a-scope-at-put",
	})
}

// waitsText describes the waits of a cycle.
func waitsText(cycle []wait) string {
	text := cycle[0].job.JobID()
	for n, w := range cycle[:min(shownWaits, len(cycle))] {
		if n > 0 {
			text += ", which"
		}
		if w.scope == "" {
			text += " depends on " + w.on.JobID()
		} else {
			text += fmt.Sprintf(" waits for scope %q of %s", w.scope, w.on.JobID())
		}
	}
	if more := len(cycle) - shownWaits; more > 0 {
		text += fmt.Sprintf(", and so on, over %s, back to %s", plural(more-1, "more job", "more jobs"), cycle[0].job.JobID())
	}
	return text + "."
}

// wait keeps a job from running until another has ended: it depends on that one or, if scope is not
// empty, needs the scope that the other holds.
type wait struct {
	job, on *driver.Record
	scope   string
}

// deadlockSearch searches a queue for jobs that wait for each other.
//
// It reads the jobs of a cycle one after the other. A blocked job keeps its scopes and its edges until
// it ends, and can't end before the one that it waits for. So the jobs that are found to be blocked
// wait for each other now, unless somebody cancels one of them meanwhile.
type deadlockSearch struct {
	*inspector
	queue   string
	seen    map[string]bool           // by job ID
	holders map[string]*driver.Record // by scope; nil if none holds it
}

// from returns a cycle of waits that a job leads to and that was not found before; nil if there is
// none. path are the waits that led to the job.
func (s *deadlockSearch) from(ctx context.Context, r *driver.Record, path []wait) (cycle []wait, err error) {
	if at := slices.IndexFunc(path, func(w wait) bool { return w.job.JobID() == r.JobID() }); at >= 0 {
		return path[at:], nil
	}
	if s.seen[r.JobID()] || len(s.seen) == maxWaitsRead || !s.waitsForOthersOnly(r) {
		return nil, nil
	}
	s.seen[r.JobID()] = true
	waits, err := s.waitsOf(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, w := range waits {
		cycle, err = s.from(ctx, w.on, append(path, w))
		if err != nil {
			return nil, err
		}
		if len(cycle) > 0 {
			if !slices.Contains(cycle, w) {
				delete(s.seen, r.JobID()) // it may lead to others
			}
			return cycle, nil
		}
	}
	return nil, nil
}

// waitsForOthersOnly reports whether a job is blocked, and no deadline ends its wait.
func (s *deadlockSearch) waitsForOthersOnly(r *driver.Record) bool {
	return driver.StateOf(r, s.store.Now()) == amboy.StateBlocked && r.TimeInfo.DispatchBy.IsZero()
}

// waitsOf returns the waits of a blocked job.
func (s *deadlockSearch) waitsOf(ctx context.Context, r *driver.Record) ([]wait, error) {
	edges := edgesOf(r)
	others, err := s.byIDs(ctx, s.queue, edges[:min(MaxLimit, len(edges))])
	if err != nil {
		return nil, err
	}
	var waits []wait
	for _, id := range edges {
		if other := others[id]; other != nil {
			waits = append(waits, wait{job: r, on: other})
		}
	}
	for _, name := range neededScopes(r) {
		if slices.Contains(r.Scopes, name) {
			continue
		}
		holder, err := s.holderOf(ctx, name)
		if err != nil {
			return nil, err
		}
		if holder != nil {
			waits = append(waits, wait{r, holder, name})
		}
	}
	return waits, nil
}

// holderOf returns the job that holds a scope; nil if none does.
func (s *deadlockSearch) holderOf(ctx context.Context, name string) (*driver.Record, error) {
	holder, known := s.holders[name]
	if known {
		return holder, nil
	}
	holder, _, err := s.holder(ctx, s.queue, name)
	if err == nil {
		s.holders[name] = holder
	}
	return holder, err
}
