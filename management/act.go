package management

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

func (i *inspector) Act(ctx context.Context, req ActRequest) (Acted, error) {
	if err := i.check(req.Validate()); err != nil {
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
	var invalidArgument *InvalidArgumentError
	if req.DryRun || errors.As(err, &invalidArgument) {
		return acted, err
	}
	entry := AuditEntry{What: string(req.Kind), Detail: detailOf(req), Done: acted.Done, Skipped: acted.Skipped}
	if len(walk.query.Queues) == 1 {
		entry.Queue = walk.query.Queues[0]
	}
	return acted, walk.recordPage(ctx, entry, err)
}

// actWalk acts on the jobs that a filter selects. It scans from the newest job to the
// oldest: a job that runs again moves to the end of the order, which no later page
// reads. The jobs of one call are still acted on from the oldest to the newest.
type actWalk struct {
	*inspector
	req   ActRequest
	query driver.Query
	// matches is the matcher of the filter.
	matches func(*driver.Record) bool
	list    string
	after   string
	begun   time.Time
	// entry is the key of the entry of the audit list; isFirst means that this page makes it.
	entry   string
	isFirst bool
	// batches are the jobs whose state allows the action, the newest first.
	batches map[batchKey]*batch
	order   []batchKey
	acted   Acted
}

// batchKey identifies the jobs that one driver action can change together.
type batchKey struct {
	queue string
	kind  driver.ActionKind
	// forgetAt is that of the action, which depends on the retention of the job.
	forgetAt time.Time
	// state is the state of the jobs in a dry run, which counts by state. It is empty if
	// jobs in several states are acted on in the order in which they were put.
	state amboy.JobState
}

type batch struct {
	action  driver.Action
	records []target
}

// target is a job of a batch.
type target struct {
	id    string
	state amboy.JobState
	// exclusive names the scopes and the unique key that the job takes when it runs again.
	exclusive []string
	// edges are the IDs of the jobs that it waits for when it runs again.
	edges []string
}

func (i *inspector) newActWalk(ctx context.Context, req ActRequest) (*actWalk, error) {
	queues, err := i.resolveQueues(req.Filter.Queues)
	if err != nil {
		return nil, err
	}
	list, err := listDigest("act", req.Filter, req.Kind)
	if err != nil {
		return nil, err
	}
	from, err := i.openCursor(ctx, list, req.Cursor)
	if err != nil {
		return nil, err
	}
	w := &actWalk{
		inspector: i, req: req, query: req.Filter.query(queues), matches: req.Filter.matcher(), list: list, after: from.After,
		begun: i.store.Now(), entry: from.Entry, batches: map[batchKey]*batch{},
	}
	if latest := w.begun.Add(-entryTime).UTC().Format(auditTimeLayout); w.entry < latest && !req.DryRun {
		w.entry, w.isFirst = auditKey(w.begun), true
	}
	return w, nil
}

// entryTime is how long after the time of an entry the pages of its action are added to it.
const entryTime = time.Hour

// recordPage is record for a page of an action. The pages of an hour have one entry, so that an action
// on many jobs does not push other entries out of the audit list.
func (w *actWalk) recordPage(ctx context.Context, entry AuditEntry, failure error) error {
	if w.isFirst {
		entry.Time = w.begun.UTC()
		return w.recordAs(ctx, w.entry, entry, failure)
	}
	reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	var before AuditEntry
	found, err := w.readNote(reading, auditKind, w.entry, &before)
	if err != nil || !found || before.Actor != actorOf(ctx) {
		return w.record(ctx, entry, failure) // it was dropped, or another actor goes on
	}
	entry.Time, entry.Detail = before.Time, before.Detail
	entry.Done += before.Done
	entry.Skipped += before.Skipped
	return w.recordAs(ctx, w.entry, entry, failure)
}

func (w *actWalk) run(ctx context.Context) (Acted, error) {
	next, err := w.scan(ctx)
	if err != nil {
		return w.acted, err
	}
	w.acted.Next, err = w.sealCursor(ctx, cursor{List: w.list, After: next, Entry: w.entry})
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

// scanTime is about how long one call searches for jobs. A program may limit the time of a request,
// which would never find the few jobs of a large store that a filter selects.
const scanTime = 1500 * time.Millisecond

// scan reads up to the requested number of jobs, and returns the place where it stopped.
func (w *actWalk) scan(ctx context.Context) (next string, err error) {
	page, begun := driver.PageRequest{After: driver.Cursor(w.after), Newest: true, Body: w.req.Filter.body()}, time.Now()
	for left := w.req.Limit; ; {
		page.Limit = min(left, pageSize)
		found, err := w.store.Admin().Find(ctx, w.query, page)
		if err != nil {
			return "", cursorError(w.req.Cursor, err)
		}
		left -= len(found.Records)
		isSearch := len(found.Records) < page.Limit // the store ended the page early
		for _, r := range only(found.Records, w.matches) {
			if err := w.addOrSkip(ctx, r); err != nil {
				return "", err
			}
		}
		if found.Next == "" || left < 1 || isSearch && time.Since(begun) > scanTime {
			return string(found.Next), nil
		}
		page.After = found.Next
	}
}

// addOrSkip adds a job to its batch, or skips it. An action that needs the whole record is
// done at once.
func (w *actWalk) addOrSkip(ctx context.Context, r *driver.Record) error {
	now := w.store.Now()
	v, _ := w.verdict(w.req.Action, r, now)
	switch {
	case v != allowed:
		w.acted.Skipped++
	case w.req.Kind == Complete || w.req.Kind == Abandon:
		return w.endOne(ctx, r)
	default:
		state := driver.StateOf(r, now)
		action := w.req.driverAction(state)
		if !w.req.DryRun {
			action.ForgetAt = w.forgetAt(action.Kind, r, w.begun)
		}
		w.add(r, state, action)
	}
	return nil
}

// countDone counts jobs in a state that were changed, or that a dry run would change.
func (w *actWalk) countDone(n int, state amboy.JobState) {
	w.acted.Done += n
	if w.req.DryRun {
		*w.acted.States.field(state) += n
	}
}

func (w *actWalk) add(r *driver.Record, state amboy.JobState, action driver.Action) {
	key := batchKey{queue: r.Group, kind: action.Kind, forgetAt: action.ForgetAt}
	if w.req.DryRun && action.Kind != driver.Restart {
		key.state = state
	}
	b := w.batches[key]
	if b == nil {
		b = &batch{action: action}
		w.batches[key] = b
		w.order = append(w.order, key)
	}
	t := target{id: r.JobID(), state: state}
	if action.Kind == driver.Restart {
		t.exclusive = exclusiveOnPut(r)
		if r.Dependency != nil && !action.IgnoreEdges {
			t.edges = r.Dependency.Edges
		}
	}
	b.records = append(b.records, t)
}

// exclusiveOnPut names the scopes and the unique key that a job takes when it is put or run
// again.
func exclusiveOnPut(r *driver.Record) (names []string) {
	scopes := r.EnqueueScopes
	if r.EnqueueAllScopes {
		scopes = r.RequiredScopes
	}
	for _, scope := range scopes {
		if _, _, limited := amboy.ScopeLimit(scope); !limited {
			names = append(names, "scope "+scope)
		}
	}
	if r.UniqueKey != "" {
		names = append(names, "key "+r.UniqueKey)
	}
	return names
}

// endOne completes or abandons a job, unless its state no longer allows it.
func (w *actWalk) endOne(ctx context.Context, r *driver.Record) error {
	if w.req.DryRun {
		w.countDone(1, driver.StateOf(r, w.store.Now()))
		return nil
	}
	for range maxTries {
		acted, again, err := w.attempt(ctx, r, w.req.Action)
		if err == nil && !again {
			w.acted.Done += acted.Done
			return nil
		}
		latest := r
		if err == nil {
			latest, err = w.store.Admin().Get(ctx, r.Group, r.JobID())
		}
		if amboy.IsJobNotFoundError(err) {
			w.acted.Skipped++
			return nil
		}
		if err != nil {
			return fmt.Errorf("job %q of queue %q: %w", r.JobID(), r.Group, err)
		}
		r = latest
		state := driver.StateOf(r, w.store.Now())
		if v, _ := w.verdict(w.req.Action, r, w.store.Now()); v != allowed || !w.selects(state) {
			w.acted.Skipped++
			return nil
		}
	}
	return fmt.Errorf("job %q of queue %q changed %d times while it was updated: %w", r.JobID(), r.Group, maxTries, amboy.ErrLeaseLost)
}

// act acts on a batch, the oldest job first.
func (w *actWalk) act(ctx context.Context, key batchKey) error {
	b, states := w.batches[key], w.states(key.kind)
	slices.Reverse(b.records)
	switch {
	case len(states) == 0: // would mean all states to the store
		w.acted.Skipped += len(b.records)
		return nil
	case w.req.DryRun && key.kind == driver.Restart:
		return w.dryRunRestart(ctx, key.queue, b, states)
	}
	for _, round := range inRounds(b.records) {
		for some := range slices.Chunk(round, pageSize) {
			done, err := w.actOnSome(ctx, key.queue, idsOf(some), states, b.action, w.req.DryRun)
			w.countDone(done, key.state)
			if err != nil {
				return fmt.Errorf("queue %q: %w", key.queue, err)
			}
			w.acted.Skipped += len(some) - done // their state has changed meanwhile
		}
	}
	return nil
}

// dryRunRestart counts the jobs of a batch that would run again. If several jobs take the
// same scope or unique key, only the first of them would.
func (w *actWalk) dryRunRestart(ctx context.Context, queue string, b *batch, states []amboy.JobState) error {
	taken := map[string]bool{}
	free := map[amboy.JobState][]target{}
	for _, t := range b.records {
		if len(t.exclusive) == 0 {
			free[t.state] = append(free[t.state], t)
			continue
		}
		done, err := w.actOnSome(ctx, queue, []string{t.id}, states, b.action, true)
		if err != nil {
			return fmt.Errorf("job %q of queue %q: %w", t.id, queue, err)
		}
		if done == 0 || slices.ContainsFunc(t.exclusive, func(name string) bool { return taken[name] }) {
			w.acted.Skipped++
			continue
		}
		w.countDone(1, t.state)
		for _, name := range t.exclusive {
			taken[name] = true
		}
	}
	for state, jobs := range free {
		for some := range slices.Chunk(jobs, pageSize) {
			done, err := w.actOnSome(ctx, queue, idsOf(some), states, b.action, true)
			if err != nil {
				return fmt.Errorf("queue %q: %w", queue, err)
			}
			w.countDone(done, state)
			w.acted.Skipped += len(some) - done
		}
	}
	return nil
}

// states returns the states in which the driver action is allowed, among those of the filter: a
// job may have left these since it was read.
func (w *actWalk) states(kind driver.ActionKind) []amboy.JobState {
	states := rules[w.req.Kind].allowed
	switch kind {
	case driver.Restart:
		states = unsuccessfulStates
	case driver.RunNow:
		states = []amboy.JobState{amboy.StateScheduled, amboy.StateBlocked}
	}
	return slices.DeleteFunc(slices.Clone(states), func(state amboy.JobState) bool { return !w.selects(state) })
}

// selects reports whether the filter selects jobs in a state.
func (w *actWalk) selects(state amboy.JobState) bool {
	return len(w.req.Filter.States) == 0 || slices.Contains(w.req.Filter.States, state)
}

func idsOf(targets []target) []string {
	ids := make([]string, len(targets))
	for n, t := range targets {
		ids[n] = t.id
	}
	return ids
}
