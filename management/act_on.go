package management

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

func (i *inspector) ActOn(ctx context.Context, queue, id string, action Action) (Acted, error) {
	if err := i.check(validQueue(queue), validJobID(id), action.Validate()); err != nil {
		return Acted{}, fmt.Errorf("acting on a job: %w", err)
	}
	if _, err := i.resolveQueues([]string{queue}); err != nil {
		return Acted{}, fmt.Errorf("action %q on job %q: %w", action.Kind, id, err)
	}
	acted, err := i.actOn(ctx, queue, id, action)
	if err != nil {
		err = fmt.Errorf("action %q on job %q of queue %q: %w", action.Kind, id, queue, err)
	}
	return acted, i.record(ctx, AuditEntry{
		What: string(action.Kind), Queue: queue, JobID: id, Detail: detailOf(action), Done: acted.Done, Skipped: acted.Skipped,
	}, err)
}

// actOn acts on a job in its current state. It reads the job again if it changed
// meanwhile.
func (i *inspector) actOn(ctx context.Context, queue, id string, action Action) (Acted, error) {
	for range maxTries {
		r, err := i.get(ctx, queue, id)
		if err != nil {
			return Acted{}, err
		}
		v, text := i.verdict(action, r, i.store.Now())
		switch v {
		case unchanged:
			return Acted{Skipped: 1}, nil
		case refused:
			return Acted{}, i.refuse(r, action, text)
		}
		acted, again, err := i.attempt(ctx, r, action)
		if err != nil || !again {
			return acted, err
		}
	}
	return Acted{}, fmt.Errorf("job changed %d times while it was updated: %w", maxTries, amboy.ErrLeaseLost)
}

// verdict returns whether the state of a job, and the kind of store, allow an action. text
// explains why it is refused.
func (i *inspector) verdict(action Action, r *driver.Record, now time.Time) (v verdict, text string) {
	if action.Kind == Abandon && i.store.ByReference() {
		return refused, "is not possible for jobs that are held by reference, of which only one copy exists"
	}
	return action.verdictFor(r, now)
}

func (i *inspector) refuse(r *driver.Record, action Action, text string) error {
	return &StateError{Job: refOf(r), State: driver.StateOf(r, i.store.Now()), Action: action.Kind, Rule: text}
}

// get returns a job. If its queue does not exist, the error wraps ErrUnknownQueue.
func (i *inspector) get(ctx context.Context, queue, id string) (*driver.Record, error) {
	r, err := i.store.Admin().Get(ctx, queue, id)
	if amboy.IsJobNotFoundError(err) {
		if errQueue := i.checkQueueExists(ctx, queue); errQueue != nil {
			return nil, errQueue
		}
	}
	return r, err
}

// attempt acts on a job whose state allows it. again is true if the job changed
// meanwhile.
func (i *inspector) attempt(ctx context.Context, r *driver.Record, action Action) (acted Acted, again bool, err error) {
	if end := i.ender(action.Kind); end != nil {
		err = end(ctx, []*driver.Record{r})[0]
		if errors.Is(err, amboy.ErrLeaseLost) {
			return Acted{}, true, nil
		}
		return doneUnless(err), false, err
	}
	now := i.store.Now()
	state := driver.StateOf(r, now)
	stored := action.driverAction(state)
	stored.ForgetAt = i.forgetAt(stored.Kind, r, now)
	done, err := i.actOnSome(ctx, r.Group, []string{r.JobID()}, []amboy.JobState{state}, stored, false)
	if err != nil || done > 0 {
		return Acted{Done: done}, false, err
	}
	latest, err := i.store.Admin().Get(ctx, r.Group, r.JobID())
	if err != nil {
		return Acted{}, false, err
	}
	if driver.StateOf(latest, i.store.Now()) != state {
		return Acted{}, true, nil
	}
	switch stored.Kind {
	case driver.RunNow:
		return Acted{Skipped: 1}, false, nil // it does not wait for a time
	case driver.Restart:
		return Acted{}, false, i.refuse(r, action, "is not possible while another job holds a scope, or the unique key, that this one takes when it is enqueued")
	default:
		return Acted{}, true, nil
	}
}

// forgetAt returns when a job that an action cancels may be removed; zero if never, and for other
// actions.
func (i *inspector) forgetAt(kind driver.ActionKind, r *driver.Record, now time.Time) time.Time {
	if kind != driver.Cancel {
		return time.Time{}
	}
	keep := i.store.KeepCanceled(r)
	if keep == amboy.KeepForever {
		return time.Time{}
	}
	return now.Add(keep)
}

// ender returns the function for an action that needs the whole record; nil for others.
func (i *inspector) ender(kind ActionKind) func(context.Context, []*driver.Record) []error {
	switch kind {
	case Complete:
		return i.store.MarkComplete
	case Abandon:
		return i.store.Abandon
	default:
		return nil
	}
}

func doneUnless(err error) Acted {
	if err != nil {
		return Acted{}
	}
	return Acted{Done: 1}
}

// actOnSome applies a driver action to those of the named jobs that are in one of the
// given states, and returns the number of jobs that it changed.
func (i *inspector) actOnSome(ctx context.Context, queue string, ids []string, states []amboy.JobState, action driver.Action, dryRun bool) (done int, err error) {
	request := driver.ActRequest{
		Query:  driver.Query{Queues: []string{queue}, JobIDs: ids, States: states, Latest: true},
		Action: action,
		Limit:  len(ids),
		DryRun: dryRun,
	}
	for {
		acted, err := i.store.Admin().Act(ctx, request)
		done += acted.Done
		request.Limit -= acted.Done + acted.Skipped
		if err != nil || acted.Next == "" || request.Limit < 1 {
			return done, err
		}
		request.After = acted.Next
	}
}
