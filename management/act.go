package management

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

func (i *inspector) Act(ctx context.Context, req ActRequest) (Acted, error) {
	if err := i.valid(req.Validate()); err != nil {
		return Acted{}, fmt.Errorf("acting on jobs: %w", err)
	}
	walk, err := i.newActWalk(ctx, req)
	if err != nil {
		return Acted{}, fmt.Errorf("action %q on jobs: %w", req.Kind, err)
	}
	acted, err := walk.run(ctx)
	if err != nil {
		err = fmt.Errorf("action %q on jobs, after %d of them: %w", req.Kind, acted.Done, err)
	}
	var notOurs *InvalidArgumentError
	if req.DryRun || errors.As(err, &notOurs) {
		return acted, err
	}
	entry := AuditEntry{What: string(req.Kind), Detail: detailOf(req), Done: acted.Done, Skipped: acted.Skipped}
	if len(walk.query.Queues) == 1 {
		entry.Queue = walk.query.Queues[0]
	}
	return acted, i.record(ctx, entry, err)
}

// actWalk does something to the jobs that a filter selects. It goes from the newest to
// the oldest: a job that is run again comes after all others, where no later page has
// it. Those that it looked at in one call are acted on in their order all the same.
type actWalk struct {
	*inspector
	req   ActRequest
	query driver.Query
	list  string
	after string
	// batches are the jobs of which the state allows it, the newest first.
	batches map[batchKey]*batch
	order   []batchKey
	acted   Acted
}

// batchKey is what jobs that are acted on together have in common.
type batchKey struct {
	queue string
	kind  driver.ActionKind
}

type batch struct {
	action  driver.Action
	records []target
}

// target is what is kept of a record.
type target struct {
	id string
	// takes is what a job takes when it is run again, that no other may have.
	takes []string
}

func (i *inspector) newActWalk(ctx context.Context, req ActRequest) (*actWalk, error) {
	queues, err := i.narrow(req.Filter.Queues)
	if err != nil {
		return nil, err
	}
	list, err := listOf("act", req.Filter, req.Kind)
	if err != nil {
		return nil, err
	}
	after, err := i.decodeCursor(ctx, list, req.Cursor)
	if err != nil {
		return nil, err
	}
	return &actWalk{
		inspector: i, req: req, query: req.Filter.query(queues), list: list, after: after, batches: map[batchKey]*batch{},
	}, nil
}

func (w *actWalk) run(ctx context.Context) (Acted, error) {
	next, err := w.look(ctx)
	if err != nil {
		return w.acted, err
	}
	w.acted.Next, err = w.encodeCursor(ctx, w.list, next)
	if err != nil {
		return w.acted, err
	}
	for _, key := range w.order {
		if err := w.act(ctx, key); err != nil {
			w.acted.Next = ""
			return w.acted, err
		}
	}
	return w.acted, nil
}

// look looks at as many jobs as it may, and returns where it ended.
func (w *actWalk) look(ctx context.Context) (next string, err error) {
	page := driver.PageRequest{After: driver.Cursor(w.after), Newest: true}
	for left := w.req.Limit; ; {
		page.Limit = min(left, pageSize)
		found, err := w.store.Admin().Find(ctx, w.query, page)
		if err != nil {
			return "", cursorError(w.req.Cursor, err)
		}
		for _, r := range found.Records {
			if err := w.consider(ctx, r); err != nil {
				return "", err
			}
		}
		left -= len(found.Records)
		if found.Next == "" || left < 1 {
			return string(found.Next), nil
		}
		page.After = found.Next
	}
}

// consider puts a job in its batch, or skips it. What needs all of the job is done at
// once.
func (w *actWalk) consider(ctx context.Context, r *driver.Record) error {
	now := w.store.Now()
	v, _ := w.verdict(w.req.Action, r, now)
	switch {
	case v != allowed:
		w.acted.Skipped++
	case w.req.Kind == Complete || w.req.Kind == Abandon:
		return w.endOne(ctx, r)
	default:
		w.add(r, w.req.stored(driver.StateOf(r, now), now))
	}
	return nil
}

func (w *actWalk) add(r *driver.Record, action driver.Action) {
	key := batchKey{r.Group, action.Kind}
	b := w.batches[key]
	if b == nil {
		b = &batch{action: action}
		w.batches[key] = b
		w.order = append(w.order, key)
	}
	t := target{id: r.JobID()}
	if action.Kind == driver.Restart {
		t.takes = takenByPut(r)
	}
	b.records = append(b.records, t)
}

// takenByPut is what a job takes when it is put, or run again.
func takenByPut(r *driver.Record) (takes []string) {
	scopes := r.EnqueueScopes
	if r.EnqueueAllScopes {
		scopes = r.RequiredScopes
	}
	for _, scope := range scopes {
		takes = append(takes, "scope "+scope)
	}
	if r.UniqueKey != "" {
		takes = append(takes, "key "+r.UniqueKey)
	}
	return takes
}

// endOne marks a job complete, where it is still to be.
func (w *actWalk) endOne(ctx context.Context, r *driver.Record) error {
	if w.req.DryRun {
		w.acted.Done++
		return nil
	}
	for range tries {
		acted, again, err := w.attempt(ctx, r, w.req.Action)
		if err == nil && !again {
			w.acted.Done += acted.Done
			return nil
		}
		if err == nil {
			r, err = w.store.Admin().Get(ctx, r.Group, r.JobID())
		}
		if amboy.IsJobNotFoundError(err) {
			w.acted.Skipped++
			return nil
		}
		if err != nil {
			return fmt.Errorf("job %q of queue %q: %w", r.JobID(), r.Group, err)
		}
		if v, _ := w.verdict(w.req.Action, r, w.store.Now()); v != allowed {
			w.acted.Skipped++
			return nil
		}
	}
	return fmt.Errorf("job %q of queue %q changed %d times meanwhile: %w", r.JobID(), r.Group, tries, amboy.ErrLeaseLost)
}

// act does what is to be done to a batch, the oldest first.
func (w *actWalk) act(ctx context.Context, key batchKey) error {
	b := w.batches[key]
	slices.Reverse(b.records)
	if w.req.DryRun && key.kind == driver.Restart {
		return w.rehearse(ctx, key.queue, b)
	}
	for some := range slices.Chunk(b.records, pageSize) {
		done, err := w.actOnSome(ctx, key.queue, idsOf(some), w.states(key.kind), b.action, w.req.DryRun)
		w.acted.Done += done
		if err != nil {
			return fmt.Errorf("queue %q: %w", key.queue, err)
		}
		w.acted.Skipped += len(some) - done // they are in another state meanwhile
	}
	return nil
}

// rehearse tells which jobs of a batch would run again. Of those that take the same
// when they do, only the first would.
func (w *actWalk) rehearse(ctx context.Context, queue string, b *batch) error {
	taken := map[string]bool{}
	var free []target
	for _, t := range b.records {
		if len(t.takes) == 0 {
			free = append(free, t)
			continue
		}
		done, err := w.actOnSome(ctx, queue, []string{t.id}, w.states(driver.Restart), b.action, true)
		if err != nil {
			return fmt.Errorf("job %q of queue %q: %w", t.id, queue, err)
		}
		if done == 0 || slices.ContainsFunc(t.takes, func(what string) bool { return taken[what] }) {
			w.acted.Skipped++
			continue
		}
		w.acted.Done++
		for _, what := range t.takes {
			taken[what] = true
		}
	}
	for some := range slices.Chunk(free, pageSize) {
		done, err := w.actOnSome(ctx, queue, idsOf(some), w.states(driver.Restart), b.action, true)
		if err != nil {
			return fmt.Errorf("queue %q: %w", queue, err)
		}
		w.acted.Done += done
		w.acted.Skipped += len(some) - done
	}
	return nil
}

// states are those that allow what is done.
func (w *actWalk) states(kind driver.ActionKind) []amboy.JobState {
	switch kind {
	case driver.Restart:
		return unsuccessfulStates
	case driver.RunNow:
		return []amboy.JobState{amboy.StateScheduled, amboy.StateBlocked}
	default:
		return rules[w.req.Kind].allowed
	}
}

func idsOf(targets []target) []string {
	ids := make([]string, len(targets))
	for n, t := range targets {
		ids[n] = t.id
	}
	return ids
}
