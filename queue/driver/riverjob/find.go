package riverjob

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// Get implements driver.Driver.
func (d *Driver) Get(ctx context.Context, queue, id string) (*driver.Record, error) {
	r, err := d.find(ctx, queue, id)
	if err != nil {
		return nil, fmt.Errorf("reading job %q of queue %q: %w", id, queue, err)
	}
	if r == nil {
		return nil, amboy.NewJobNotFoundErrorf("queue %q has no job %q", queue, id)
	}
	return r.record(), nil
}

// Attempts implements driver.Driver. River keeps one row for all attempts of a job, and of the earlier
// ones only their errors and owners.
func (d *Driver) Attempts(ctx context.Context, queue, id string) ([]*driver.Record, error) {
	r, err := d.find(ctx, queue, id)
	if err != nil {
		return nil, fmt.Errorf("reading the attempts of job %q of queue %q: %w", id, queue, err)
	}
	if r == nil {
		return nil, nil
	}
	return r.attempts(), nil
}

// find returns a row; nil if it does not exist.
func (d *Driver) find(ctx context.Context, queue, id string) (*row, error) {
	number, err := strconv.ParseInt(id, 10, 64)
	if err != nil || !slices.Contains(d.opts.Queues, queue) {
		return nil, d.usable(ctx)
	}
	rows, err := d.read(ctx, selection{where: "id = $1 AND queue = $2", args: []any{number, queue}, withArgs: true})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return rows[0], nil
}

// conditions builds the condition of a statement.
type conditions struct {
	all  []string
	args []any
}

// add adds a condition, whose question mark stands for the argument.
func (c *conditions) add(text string, arg any) {
	c.args = append(c.args, arg)
	c.all = append(c.all, strings.ReplaceAll(text, "?", "$"+strconv.Itoa(len(c.args))))
}

func (c *conditions) within(column string, times driver.TimeRange) {
	if times.IsZero() {
		return
	}
	c.add(column+" >= ?::timestamptz", times.From)
	if !times.To.IsZero() {
		c.add(column+" < ?::timestamptz", times.To)
	}
}

// stateConditions are the rows in a state of our model. The states that are left out have no rows.
var stateConditions = map[amboy.JobState]string{
	amboy.StateScheduled: "state IN ('available', 'scheduled', 'retryable') AND scheduled_at > now()",
	amboy.StatePending:   "state IN ('available', 'scheduled', 'retryable') AND scheduled_at <= now()",
	amboy.StateParked:    "state = 'pending'",
	amboy.StateRunning:   "state = 'running'",
	amboy.StateSucceeded: "state = 'completed'",
	amboy.StateFailed:    "state = 'discarded'",
	amboy.StateCanceled:  "state = 'cancelled'",
}

// selectionOf returns the rows that a query selects, beyond a cursor; false if there can be none.
func (d *Driver) selectionOf(q driver.Query, after driver.Cursor, newest bool) (s selection, some bool, err error) {
	c := conditions{}
	queues := q.Queues
	if len(queues) == 0 {
		queues = d.opts.Queues
	}
	queues = slices.DeleteFunc(slices.Clone(queues), func(name string) bool { return !slices.Contains(d.opts.Queues, name) })
	c.add("queue = ANY(?::text[])", queues)
	if after != "" {
		id, err := strconv.ParseInt(string(after), 10, 64)
		if err != nil {
			return s, false, fmt.Errorf("cursor %q: %w", after, driver.ErrBadCursor)
		}
		if newest {
			c.add("id < ?", id)
		} else {
			c.add("id > ?", id)
		}
	}
	if q.DependsOn != "" && len(q.Queues) == 0 {
		return s, false, errors.New("DependsOn requires Queues")
	}
	if q.Scope != "" || q.Holding || q.DependsOn != "" || len(queues) == 0 {
		return s, false, nil // River's jobs have neither scopes nor dependencies.
	}
	if len(q.States) > 0 {
		var states []string
		for _, state := range q.States {
			if text, ok := stateConditions[state]; ok {
				states = append(states, "("+text+")")
			}
		}
		if len(states) == 0 {
			return s, false, nil
		}
		c.all = append(c.all, "("+strings.Join(states, " OR ")+")")
	}
	d.addTexts(&c, q)
	c.within("created_at", q.Created)
	c.within("scheduled_at", q.Due)
	c.within("finalized_at", q.Ended)
	s = selection{where: strings.Join(c.all, " AND "), args: c.args, withArgs: true}
	if newest {
		s.order = "id DESC"
	}
	return s, true, nil
}

// addTexts adds the conditions for IDs, types, tags and errors.
func (d *Driver) addTexts(c *conditions, q driver.Query) {
	if len(q.Types) > 0 {
		c.add("kind = ANY(?::text[])", storables(q.Types))
	}
	if q.ID != "" {
		c.add("id::text LIKE ?", likePattern(q.ID))
	}
	if len(q.JobIDs) > 0 {
		ids := []int64{}
		for _, text := range q.JobIDs {
			if id, err := strconv.ParseInt(text, 10, 64); err == nil && strconv.FormatInt(id, 10) == text {
				ids = append(ids, id)
			}
		}
		c.add("id = ANY(?::bigint[])", ids)
	}
	for _, part := range []struct{ text, condition string }{
		{q.IDPart, "position(? IN id::text) > 0"},
		{q.TypePart, `position(? IN lower(kind COLLATE "C")) > 0`},
		{q.TagPart, `EXISTS (SELECT 1 FROM unnest(tags) tag WHERE position(? IN lower(tag::text COLLATE "C")) > 0)`},
		{q.Error, `state IN ('discarded', 'cancelled') AND position(? IN lower((errors[cardinality(errors)]->>'error') COLLATE "C")) > 0`},
	} {
		if part.text != "" {
			c.add(part.condition, driver.LowerPart(storable(part.text)))
		}
	}
	if len(q.Tags) > 0 {
		c.add("tags::text[] @> ?::text[]", storables(q.Tags))
	}
}

// likePattern translates a pattern with * and ? for LIKE.
func likePattern(pattern string) string {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`, `*`, `%`, `?`, `_`).Replace(storable(pattern))
}

func storables(texts []string) []string {
	all := make([]string, len(texts))
	for i, text := range texts {
		all[i] = storable(text)
	}
	return all
}

// Find implements driver.Driver.
func (d *Driver) Find(ctx context.Context, q driver.Query, page driver.PageRequest) (driver.Page, error) {
	if page.Limit < 1 {
		return driver.Page{}, fmt.Errorf("finding jobs: Limit must be at least 1 (is %d)", page.Limit)
	}
	s, some, err := d.selectionOf(q, page.After, page.Newest)
	if err != nil || !some {
		return driver.Page{}, wrapFind(err)
	}
	s.limit, s.withArgs = page.Limit, !page.Brief
	if page.Body != nil {
		s.limit, s.withArgs = max(page.Limit, searchedAtOnce), true
	}
	rows, err := d.read(ctx, s)
	if err != nil {
		return driver.Page{}, wrapFind(err)
	}
	var found driver.Page
	for i, r := range rows {
		if record := r.record(); page.Wants(record.Job) {
			found.Records = append(found.Records, record)
		}
		if len(found.Records) == page.Limit || i+1 == s.limit {
			found.Next = cursorOf(rows[:i+1])
			break
		}
	}
	return found, nil
}

// searchedAtOnce is the number of jobs whose arguments one statement reads to search them.
const searchedAtOnce = 1000

func wrapFind(err error) error {
	if err != nil {
		return fmt.Errorf("finding jobs: %w", err)
	}
	return nil
}

func cursorOf(rows []*row) driver.Cursor {
	return driver.Cursor(strconv.FormatInt(rows[len(rows)-1].id, 10))
}

// Count implements driver.Driver.
func (d *Driver) Count(ctx context.Context, q driver.Query, limit int) (n int, err error) {
	if limit < 1 {
		return 0, fmt.Errorf("counting jobs: the limit must be at least 1 (is %d)", limit)
	}
	s, some, err := d.selectionOf(q, "", false)
	if err == nil {
		err = d.usable(ctx)
	}
	if err != nil || !some {
		return 0, wrapFind(err)
	}
	err = d.pool.QueryRow(ctx, d.sql(fmt.Sprintf("SELECT count(*) FROM (SELECT 1 FROM {s}.river_job WHERE %s LIMIT %d) counted", s.where, limit)), s.args...).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("counting jobs: %w", d.failed(err, false))
	}
	return n, nil
}

// Act implements driver.Driver.
func (d *Driver) Act(ctx context.Context, req driver.ActRequest) (acted driver.Acted, err error) {
	err = req.Action.Validate()
	if err == nil && req.Limit < 1 {
		err = fmt.Errorf("invalid action: Limit must be at least 1 (is %d)", req.Limit)
	}
	if err == nil {
		err = checkAction(req.Action)
	}
	s, some := selection{}, false
	if err == nil {
		s, some, err = d.selectionOf(req.Query, req.After, false)
	}
	if err != nil || !some {
		return driver.Acted{}, wrapAct(err)
	}
	s.limit, s.withArgs = req.Limit, false
	chosen, err := d.read(ctx, s)
	if err != nil || len(chosen) == 0 {
		return driver.Acted{}, wrapAct(err)
	}
	able := slices.DeleteFunc(slices.Clone(chosen), func(r *row) bool { return !r.act(req.Action) })
	acted.Done = len(able)
	if !req.DryRun && len(able) > 0 {
		done, err := d.actOn(ctx, s, idsOf(able), req.Action)
		acted.Done = len(done)
		if err != nil {
			return acted, wrapAct(err)
		}
	}
	acted.Skipped = len(chosen) - acted.Done
	if len(chosen) == req.Limit {
		acted.Next = cursorOf(chosen)
	}
	return acted, nil
}

// checkAction returns an error for an action that River's tables have no place for. Edit needs a number that shows that
// a job has changed since it was read.
func checkAction(a driver.Action) error {
	switch p := -a.Priority; {
	case a.Kind == driver.Edit:
		return fmt.Errorf("the jobs of River can't be edited, only rescheduled and prioritized: %w", driver.ErrUnsupported)
	case a.Kind == driver.Prioritize && (p < 1 || p > 4):
		return fmt.Errorf("invalid action: Priority must be from -1, which runs first, to -4, because River has the priorities 1 to 4 (is %d): %w", a.Priority, driver.ErrUnsupported)
	default:
		return nil
	}
}

// actOn acts on selected rows. They are selected again when they are locked, because they may have changed. It holds no
// locks while it waits for rows that another transaction has locked, or workers would wait for the others.
func (d *Driver) actOn(ctx context.Context, s selection, ids []int64, a driver.Action) (done []*row, err error) {
	locked, err := d.aroundLocked(ctx, holding{patience: endless, of: &s}, ids, func(ids []int64) (seen []int64, err error) {
		some := s.among(ids)
		some.skip, some.brief, some.seen = true, true, &seen
		changed, err := d.change(ctx, some, func(r *row) { r.act(a) }, leaveAlone)
		done = append(done, changed...)
		if failure := d.announce(ctx, a, changed); err == nil {
			err = failure
		}
		return seen, err
	})
	if err == nil && len(locked) > 0 {
		err = fmt.Errorf("%d of %d jobs are left: %w", len(locked), len(ids), driver.ErrBlocked)
	}
	return done, err
}

func wrapAct(err error) error {
	if err != nil {
		return fmt.Errorf("acting on jobs: %w", err)
	}
	return nil
}

// act performs an action on a row, as River UI does if it has the action. It returns false if the
// state does not allow it.
func (r *row) act(a driver.Action) bool {
	switch {
	case a.Kind == driver.Cancel && r.state == stateRunning:
		r.requestCancel()
	case a.Kind == driver.Cancel && !r.hasEnded():
		r.requestCancel()
		r.set(stateCancelled)
	case a.Kind == driver.RunNow && r.isWaiting() && r.scheduledAt.After(r.now):
		r.setDue(stateAvailable, 0)
	case a.Kind == driver.Reschedule && r.isWaiting():
		r.set(stateAvailable)
		if r.scheduledAt = a.At; a.At.Sub(r.now) > soon {
			r.set(stateScheduled)
		}
	case a.Kind == driver.Prioritize && !r.hasEnded():
		r.priority, r.edited = int16(-a.Priority), true //nolint:gosec // Act has checked it.
	case a.Kind == driver.Park && r.isWaiting():
		r.park(a.Reason)
	case a.Kind == driver.Unpark && r.state == statePending:
		r.unset(keyParked)
		r.set(stateAvailable)
		if r.scheduledAt.Sub(r.now) > soon {
			r.set(stateScheduled)
		}
	case a.Kind == driver.Restart && (r.state == stateDiscarded || r.state == stateCancelled):
		r.unset(keyProgress)
		r.setDue(stateScheduled, a.At.Sub(r.now))
		if r.attempt >= r.maxAttempts {
			r.maxAttempts = min(r.attempt, math.MaxInt16-1) + 1
		}
	case a.Kind == driver.Delete && r.hasEnded():
		r.deleted, r.edited = true, true
	default:
		return false
	}
	return true
}

// announce tells other processes, those of River too, of an action.
func (d *Driver) announce(ctx context.Context, a driver.Action, done []*row) error {
	if len(done) == 0 {
		return nil
	}
	d.floors.drop()
	change := driver.InQueuesOf(done, func(r *row) string { return r.queue })
	change.Cancels = a.Kind == driver.Cancel
	d.subscribers.Notify(change)
	if a.Kind != driver.Cancel {
		return nil
	}
	batch := &pgx.Batch{}
	for _, r := range done {
		if r.state == stateRunning {
			queueNotify(batch, d.channel(topicControl), control{Action: actionCancel, JobID: r.id, Queue: r.queue})
		}
	}
	return d.failed(d.pool.SendBatch(ctx, batch).Close(), false)
}

// count adds the number of rows in a state to what describes a queue. due is the number of those whose
// time has come.
func count(info *driver.QueueInfo, state string, n, due int) {
	info.Stats.Total += n
	switch state {
	case stateRunning:
		info.Stats.Running += n
	case stateCompleted, stateCancelled, stateDiscarded:
		info.Stats.Completed += n
	case statePending:
		info.Stats.Pending += n
		info.Parked += n
	default:
		info.Stats.Pending += n
		info.Scheduled += n - due
	}
}

// unfinishedStates are the states of rows that have not ended for good.
var unfinishedStates = []string{"available", "pending", "retryable", "running", "scheduled"}

// infos describes some queues. It counts their rows in some states; in all if none are named.
func (d *Driver) infos(ctx context.Context, names []string, states ...string) ([]driver.QueueInfo, error) {
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	names = slices.Sorted(slices.Values(names))
	infos := make([]driver.QueueInfo, len(names))
	for i, name := range names {
		infos[i].Name = name
	}
	of := func(name string) *driver.QueueInfo {
		i, _ := slices.BinarySearch(names, name)
		return &infos[i]
	}
	inStates, arguments := "", []any{names}
	if len(states) > 0 {
		inStates, arguments = ` AND state = ANY($2::text[]::{s}.river_job_state[])`, append(arguments, states)
	}
	var name, state string
	var n, due int
	found, err := d.pool.Query(ctx, d.sql(`SELECT queue, state::text, count(*)::bigint, count(*) FILTER (WHERE scheduled_at <= now())::bigint
		FROM {s}.river_job WHERE queue = ANY($1::text[])`+inStates+` GROUP BY queue, state`), arguments...)
	if err == nil {
		err = scanEach(found, func() { count(of(name), state, n, due) }, &name, &state, &n, &due)
	}
	if err != nil {
		return nil, d.failed(err, false)
	}
	paused, err := d.namesOf(ctx, `SELECT q.name FROM {s}.river_queue q WHERE q.name = ANY($1::text[]) AND q.paused_at IS NOT NULL`, names)
	if err != nil {
		return nil, err
	}
	for _, name := range paused {
		of(name).Control.Paused = true
	}
	return infos, nil
}

func scanEach(found pgx.Rows, each func(), into ...any) error {
	_, err := pgx.ForEachRow(found, into, func() error {
		each()
		return nil
	})
	return err
}

func (d *Driver) collectNames(found pgx.Rows, err error) ([]string, error) {
	if err != nil {
		return nil, d.failed(err, false)
	}
	names, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		return nil, d.failed(err, false)
	}
	return names, nil
}

// Stats implements driver.Driver. It counts rows, so its cost grows with their number.
func (d *Driver) Stats(ctx context.Context, queue string) (amboy.QueueStats, error) {
	infos, err := d.infos(ctx, []string{queue})
	if err != nil {
		return amboy.QueueStats{}, fmt.Errorf("counting the jobs of queue %q: %w", queue, err)
	}
	return infos[0].Stats, nil
}

// Queues implements driver.Driver. The queues are those of Options.Queues.
func (d *Driver) Queues(ctx context.Context, req driver.QueueRequest) ([]driver.QueueInfo, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	names := slices.Sorted(slices.Values(d.opts.Queues))
	names = slices.DeleteFunc(names, func(name string) bool { return name < req.From })
	if req.Limit > 0 {
		names = names[:min(req.Limit, len(names))]
	}
	infos, err := d.infos(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("describing the queues: %w", err)
	}
	return infos, nil
}

// SumQueues implements driver.Driver.
func (d *Driver) SumQueues(ctx context.Context, busiest int) (driver.QueueTotals, error) {
	infos, err := d.infos(ctx, d.opts.Queues)
	if err != nil {
		return driver.QueueTotals{}, fmt.Errorf("adding up the queues: %w", err)
	}
	return totalsOf(infos, busiest), nil
}

// SumUnfinished implements driver.UnfinishedSummer. It does not read the rows that have ended.
func (d *Driver) SumUnfinished(ctx context.Context, busiest int) (driver.QueueTotals, error) {
	infos, err := d.infos(ctx, d.opts.Queues, unfinishedStates...)
	if err != nil {
		return driver.QueueTotals{}, fmt.Errorf("adding up the jobs that have not ended: %w", err)
	}
	return totalsOf(infos, busiest), nil
}

func totalsOf(infos []driver.QueueInfo, busiest int) (totals driver.QueueTotals) {
	for _, info := range infos {
		totals.Add(info, busiest)
	}
	return totals
}

// CountTypes implements driver.Driver.
func (d *Driver) CountTypes(ctx context.Context) ([]driver.TypeCount, error) {
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	found, err := d.pool.Query(ctx, d.sql(`SELECT queue, kind, count(*) FILTER (WHERE state <> 'running' AND state <> 'pending' AND scheduled_at <= now())::bigint,
			count(*) FILTER (WHERE state <> 'running' AND state <> 'pending' AND scheduled_at > now())::bigint,
			count(*) FILTER (WHERE state = 'pending')::bigint, count(*) FILTER (WHERE state = 'running')::bigint
		FROM {s}.river_job WHERE state IN ('available', 'scheduled', 'retryable', 'pending', 'running') AND queue = ANY($1::text[])
		GROUP BY queue, kind ORDER BY queue COLLATE "C", kind COLLATE "C"`), d.opts.Queues)
	var counts []driver.TypeCount
	var c driver.TypeCount
	if err == nil {
		err = scanEach(found, func() { counts = append(counts, c) }, &c.Queue, &c.Type, &c.Ready, &c.Scheduled, &c.Parked, &c.Running)
	}
	if err != nil {
		return nil, fmt.Errorf("counting jobs by type: %w", d.failed(err, false))
	}
	return counts, nil
}

// OldestReady implements driver.Driver.
func (d *Driver) OldestReady(ctx context.Context, queues []string, _ time.Time) (map[string]time.Time, error) {
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	found, err := d.pool.Query(ctx, d.sql(`SELECT q.name, min(greatest(first.scheduled_at, first.created_at)) FROM unnest($1::text[]) q(name),
		unnest(ARRAY['available', 'scheduled', 'retryable']) st(state), unnest(ARRAY[1, 2, 3, 4]) p(priority),
		LATERAL (SELECT scheduled_at, created_at FROM {s}.river_job j WHERE j.state = st.state::{s}.river_job_state AND j.queue = q.name AND j.priority = p.priority
			AND j.scheduled_at <= now() AND isfinite(j.scheduled_at) ORDER BY j.scheduled_at LIMIT 1) first GROUP BY q.name`), queues)
	oldest := map[string]time.Time{}
	var name string
	var since time.Time
	if err == nil {
		err = scanEach(found, func() { oldest[name] = since.UTC() }, &name, &since)
	}
	if err != nil {
		return nil, fmt.Errorf("finding the oldest ready jobs of %d queues: %w", len(queues), d.failed(err, false))
	}
	return oldest, nil
}
