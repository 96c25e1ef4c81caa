package management

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// maxExplained is the number of queues, and of types, whose pending jobs are explained on a page of
// jobs: each costs calls of the store.
const maxExplained = 20

// explainPending sets the Reason of pending jobs, if something other than busy workers keeps
// them from starting. Each summary belongs to the record with its index.
func (i *inspector) explainPending(ctx context.Context, jobs []JobSummary, records []*driver.Record) error {
	byQueue := map[string]string{}
	type queueType struct{ queue, jobType string }
	byType := map[queueType]string{}
	unknown := sync.OnceValues(func() ([]driver.Kind, error) { return i.unknownKinds(ctx) })
	for n, r := range records {
		if jobs[n].State != amboy.StatePending || jobs[n].Reason != "" {
			continue
		}
		reason, asked := byQueue[r.Group]
		if !asked && len(byQueue) < maxExplained {
			why, err := i.whyNoneStarts(ctx, r.Group)
			if err != nil {
				return fmt.Errorf("finding out why jobs of queue %q are pending: %w", r.Group, err)
			}
			reason, byQueue[r.Group] = why, why
		}
		if reason == "" {
			key := queueType{r.Group, r.Type}
			reason, asked = byType[key]
			if !asked && len(byType) < maxExplained {
				why, err := i.whyNoneOfTypeStarts(ctx, r.Group, r.Type)
				if err != nil {
					return fmt.Errorf("finding out why jobs of queue %q are pending: %w", r.Group, err)
				}
				reason, byType[key] = why, why
			}
		}
		if reason == "" {
			kinds, err := unknown()
			if err != nil {
				return fmt.Errorf("finding the types that no process knows: %w", err)
			}
			if kind := driver.KindOf(r); slices.Contains(kinds, kind) {
				reason = "no live process knows " + kind.String()
			}
		}
		jobs[n].Reason = reason
	}
	return nil
}

// whyNoneStarts returns which control of a queue keeps its pending jobs from starting; empty if
// none does.
func (i *inspector) whyNoneStarts(ctx context.Context, queue string) (string, error) {
	control, err := i.store.Admin().Control(ctx, queue, driver.ControlChange{})
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return "", nil
	case err != nil:
		return "", err
	case control.Paused:
		entry, failed := i.lastControl(ctx, queue, "paused")
		return "queue is paused" + sinceTime(entry), failed
	case control.IsStopped():
		return "the rate of the queue is 0", nil
	case control.MaxRunning == 0:
		return "", nil
	}
	info, err := i.info(ctx, queue)
	if err != nil || info.Stats.Running < control.MaxRunning {
		return "", err
	}
	return plural(info.Stats.Running, "job of the queue runs", "jobs of the queue run") + ", which is its maximum", nil
}

// whyNoneOfTypeStarts returns which limit of a job type keeps its pending jobs in a queue from
// starting; empty if none does.
func (i *inspector) whyNoneOfTypeStarts(ctx context.Context, queue, jobType string) (string, error) {
	control, err := i.store.Admin().Control(ctx, queue, driver.ControlChange{})
	if errors.Is(err, errors.ErrUnsupported) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	limit := control.Types[jobType]
	if limit.IsStopped() {
		return fmt.Sprintf("the rate of type %q is 0", jobType), nil
	}
	if limit.MaxRunning == 0 {
		return "", nil
	}
	query := driver.Query{Queues: []string{queue}, Types: []string{jobType}, States: []amboy.JobState{amboy.StateRunning}}
	running, err := i.store.Admin().Count(ctx, query, limit.MaxRunning)
	if err != nil || running < limit.MaxRunning {
		return "", err
	}
	return plural(running, fmt.Sprintf("job of type %q runs", jobType), fmt.Sprintf("jobs of type %q run", jobType)) + ", which is its maximum", nil
}

// sinceTime is the time and the actor of an entry of the audit list; empty if they are unknown.
func sinceTime(entry AuditEntry) string {
	if entry.Time.IsZero() {
		return ""
	}
	text := " since " + entry.Time.UTC().Format(time.RFC3339)
	if entry.Actor != "" {
		text += " by " + entry.Actor
	}
	return text
}
