package management

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/presence"
	"github.com/mongodb/amboy/queue/driver"
)

// JobKind identifies what a process must be able to decode to run a job.
type JobKind struct {
	// Type and Version are those of the job when it was stored.
	Type    string `json:"type"`
	Version int    `json:"version"`
	// Dependency and DependencyVersion are the type and version of its dependency
	// manager; empty for a type that every process knows.
	Dependency        string `json:"dependency,omitempty"`
	DependencyVersion int    `json:"dependency_version,omitempty"`
}

// String describes the kind.
func (k JobKind) String() string {
	return driver.Kind{Type: k.Type, Version: k.Version, Manager: k.Dependency, ManagerVersion: k.DependencyVersion}.String()
}

// UnknownJobs are waiting jobs that no live process can run: no process has registered
// their type, or that of their dependency manager, in their version. They run as soon as
// a process starts that has.
type UnknownJobs struct {
	JobKind
	// Jobs is their number, up to MaxLimit.
	Jobs Count `json:"jobs"`
}

func kindOf(k driver.Kind) JobKind {
	return JobKind{Type: k.Type, Version: k.Version, Dependency: k.Manager, DependencyVersion: k.ManagerVersion}
}

// setUnknown sets Unknown for the queues with the most pending jobs.
func (i *inspector) setUnknown(ctx context.Context, queues []Queue) error {
	kinds, err := i.unknownKinds(ctx)
	if err != nil || len(kinds) == 0 {
		return err
	}
	byDepth := make([]*Queue, len(queues))
	for n := range queues {
		byDepth[n] = &queues[n]
	}
	slices.SortStableFunc(byDepth, func(a, b *Queue) int { return cmp.Compare(b.Counts.Pending, a.Counts.Pending) })
	for _, q := range byDepth[:min(maxDetailed, len(byDepth))] {
		if q.Counts.Pending+q.Counts.Retrying == 0 {
			continue
		}
		for _, kind := range kinds {
			jobs, err := i.countUnknown(ctx, q.Name, kind)
			if err != nil {
				return fmt.Errorf("counting the jobs of queue %q that no process knows: %w", q.Name, err)
			}
			if jobs.Count > 0 {
				q.Unknown = append(q.Unknown, UnknownJobs{JobKind: kindOf(kind), Jobs: jobs})
			}
		}
	}
	return nil
}

// unknownKinds returns the kinds that live processes have met and that none of them can run.
func (i *inspector) unknownKinds(ctx context.Context) ([]driver.Kind, error) {
	var alive []presence.Process
	met := map[driver.Kind]bool{}
	for report, err := range i.presences(ctx) {
		if err != nil {
			return nil, err
		}
		if !report.Alive(i.store.Now()) {
			continue
		}
		alive = append(alive, report)
		for _, kind := range report.Unknown {
			met[kind] = true
		}
	}
	var kinds []driver.Kind
	for kind := range met {
		if !slices.ContainsFunc(alive, func(p presence.Process) bool { return p.Knows(kind) }) {
			kinds = append(kinds, kind)
		}
	}
	slices.SortFunc(kinds, func(a, b driver.Kind) int { return cmp.Compare(a.Key(), b.Key()) })
	return kinds, nil
}

// countUnknown counts the jobs of a kind that wait in a queue, up to MaxLimit.
func (i *inspector) countUnknown(ctx context.Context, queue string, kind driver.Kind) (Count, error) {
	query := driver.Query{
		Queues: []string{queue},
		Types:  []string{kind.Type},
		States: []amboy.JobState{amboy.StateScheduled, amboy.StatePending, amboy.StateBlocked, amboy.StateRetrying},
		Latest: true,
	}
	n, seen := 0, 0
	for r, err := range i.records(ctx, query, driver.PageRequest{Limit: MaxLimit}) {
		if err != nil {
			return Count{}, err
		}
		seen++
		if driver.KindOf(r) == kind {
			n++
		}
		if n == MaxLimit || seen == maxScanned {
			return Count{Count: n, More: true}, nil
		}
	}
	return Count{Count: n}, nil
}
