package riverjob

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/pgconnect"
)

// Claim implements driver.Driver. It makes waiting jobs available whose time has come, and takes
// available jobs by priority, time and id. It returns an error for queues that are not in
// Options.Queues, unless others are asked for too: one such queue must not stop a group.
func (d *Driver) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	asked := req.Queues
	req.Queues = slices.DeleteFunc(slices.Clone(asked), func(demand driver.Demand) bool { return !slices.Contains(d.opts.Queues, demand.Queue) })
	if len(req.Queues) == 0 && len(asked) > 0 {
		return driver.Claimed{}, fmt.Errorf("claiming jobs of queue %q: Options.Queues must name it (has %q)", asked[0].Queue, d.opts.Queues)
	}
	// What becomes due after this is either claimed or reported as the next time.
	next, err := d.promote(ctx, namesOf(req.Queues), req.Now)
	if err != nil {
		return driver.Claimed{}, fmt.Errorf("claiming jobs: %w", err)
	}
	records, err := d.claimInTurns(ctx, req)
	if err != nil && len(records) == 0 {
		return driver.Claimed{}, fmt.Errorf("claiming jobs: %w", err)
	}
	// What was claimed must run, even if the next claim failed; it meets the error again.
	return driver.Claimed{Records: records, Next: next}, nil
}

func namesOf(demands []driver.Demand) []string {
	names := make([]string, len(demands))
	for i, q := range demands {
		names[i] = q.Queue
	}
	return names
}

// claimInTurns claims from each queue its share of the limit, again from those that had more, until
// no queue has.
func (d *Driver) claimInTurns(ctx context.Context, req driver.ClaimRequest) (all []*driver.Record, err error) {
	open, limit := slices.Clone(req.Queues), req.Limit
	for limit > 0 && len(open) > 0 {
		var more []driver.Demand
		for i, demand := range open {
			share := min(demand.Limit, (limit+len(open)-i-1)/(len(open)-i))
			if share <= 0 {
				continue
			}
			got, err := d.claimOf(ctx, req, demand.Queue, share)
			all = append(all, got...)
			if err != nil {
				return all, err
			}
			limit -= len(got)
			demand.Limit -= len(got)
			if len(got) == share && demand.Limit > 0 {
				more = append(more, demand)
			}
		}
		open = more
	}
	return all, nil
}

// claimable selects the jobs of a queue that may be claimed.
const claimable = `state = 'available' AND queue = $1 AND scheduled_at <= now()
	AND kind <> ALL($2::text[]) AND ($3::text[] IS NULL OR kind = ANY($3::text[]))
	AND NOT EXISTS (SELECT 1 FROM {s}.river_queue q WHERE q.name = $1 AND q.paused_at IS NOT NULL)`

func (d *Driver) claimOf(ctx context.Context, req driver.ClaimRequest, queue string, limit int) ([]*driver.Record, error) {
	except := []string{}
	for _, kind := range req.Except {
		if version, _ := typeOf(kind.Type); kind.Version == version {
			except = append(except, kind.Type)
		}
	}
	claim := func(s selection) ([]*row, error) {
		tried := map[int64]try{}
		rows, err := d.change(ctx, s, func(r *row) {
			r.claim(req.Owner, req.LeaseTime)
			tried[r.id] = try{r.token(), r.attemptedAt}
		}, discardForKey)
		if errors.Is(err, driver.ErrOutcomeUnknown) {
			d.floors.drop()
			return d.claimedAfterAll(ctx, rows, tried, err)
		}
		return rows, err
	}
	var rows []*row
	var err error
	if len(except) == 0 && d.kinds() == nil {
		rows, err = claim(selection{
			where: claimable, args: []any{queue, except, d.kinds()},
			order: "priority, scheduled_at, id", limit: limit, skip: true, withArgs: true,
		})
	} else {
		rows, err = d.claimAbove(ctx, queue, except, limit, claim)
	}
	records := make([]*driver.Record, 0, len(rows))
	for _, r := range rows {
		if r.state != stateRunning {
			continue // its unique key was taken
		}
		record := r.record()
		if len(record.Metadata) > 0 {
			d.claimed.Store(driver.LeaseOf(record), maps.Clone(record.Metadata))
		}
		records = append(records, record)
	}
	return records, err
}

// try is what a claim has written in a row. Another one of the same owner writes the same token at another time.
type try struct {
	token token
	at    time.Time
}

// claimedAfterAll adds to the rows that were claimed those of a transaction whose commit was not answered. It
// returns the error of that commit if this remains unknown.
func (d *Driver) claimedAfterAll(ctx context.Context, rows []*row, tried map[int64]try, unanswered error) ([]*row, error) {
	for _, r := range rows {
		delete(tried, r.id)
	}
	s := byIDs(slices.Collect(maps.Keys(tried)))
	s.withArgs = true
	found, err := d.read(ctx, s)
	if err != nil {
		return rows, unanswered
	}
	for _, r := range found {
		if try := tried[r.id]; r.state == stateRunning && r.token() == try.token && r.attemptedAt.Equal(try.at) {
			rows = append(rows, r)
		}
	}
	return rows, nil
}

func (d *Driver) kinds() []string {
	if len(d.opts.Kinds) == 0 {
		return nil
	}
	return d.opts.Kinds
}

// promoteAtOnce is the maximum number of jobs that become available in one transaction.
const promoteAtOnce = 1000

// promote makes jobs available whose time has come. Of several with one unique key it takes the
// first; the others, and those whose key another job has, are discarded, as River does. It returns
// when the next job is due, by the clock of the caller; zero if none is.
func (d *Driver) promote(ctx context.Context, queues []string, now time.Time) (next time.Time, err error) {
	wait, err := d.nextDue(ctx, queues)
	switch {
	case err != nil:
		return time.Time{}, fmt.Errorf("querying which jobs are due: %w", err)
	case wait == nil:
		return time.Time{}, nil
	case *wait > 0:
		return now.Add(*wait), nil
	}
	s := selection{
		where: `id IN (SELECT due.id FROM unnest($1::text[]) q(name), unnest(ARRAY['scheduled', 'retryable']) st(state), unnest(ARRAY[1, 2, 3, 4]) p(priority),
			LATERAL (SELECT id FROM {s}.river_job j WHERE j.state = st.state::{s}.river_job_state AND j.queue = q.name AND j.priority = p.priority
				AND j.scheduled_at <= now() ORDER BY j.scheduled_at, j.id LIMIT ` + strconv.Itoa(promoteAtOnce) + `) due)
			AND state IN ('scheduled', 'retryable')`,
		args: []any{queues}, order: "priority, scheduled_at, id", limit: promoteAtOnce, skip: true, brief: true,
	}
	rows, err := d.change(ctx, s, func(r *row) { r.set(stateAvailable) }, discardForKey)
	if err != nil {
		return time.Time{}, fmt.Errorf("making due jobs available: %w", err)
	}
	if len(rows) == 0 {
		return now.Add(pollEvery), nil // another process is at it
	}
	d.floors.drop()
	return now, nil // there may be more
}

// discardForKey repairs a job whose unique key another job has in the state that it came to.
func discardForKey(r *row, _ error) {
	r.set(stateDiscarded)
	r.put(keyConflict, "scheduler_discarded")
	if r.counts(stateDiscarded) {
		r.uniqueKey = nil // or it could not end either
	}
}

// nextDue returns for how long no waiting job of some queues becomes due, at most a day; 0 if one is
// due that is not available yet, and nil if there are none.
func (d *Driver) nextDue(ctx context.Context, queues []string) (*time.Duration, error) {
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	var seconds float64
	// Of the available jobs an index finds those that are not due yet; most are.
	err := d.pool.QueryRow(ctx, d.sql(`SELECT extract(epoch FROM least(greatest(min(next.scheduled_at), now()), now() + interval '1 day') - now())::float8
		FROM unnest($1::text[]) q(name), unnest(ARRAY['available', 'scheduled', 'retryable']) st(state), unnest(ARRAY[1, 2, 3, 4]) p(priority),
			LATERAL (SELECT scheduled_at FROM {s}.river_job j WHERE j.state = st.state::{s}.river_job_state AND j.queue = q.name AND j.priority = p.priority
				AND j.scheduled_at >= CASE st.state WHEN 'available' THEN now() ELSE '-infinity' END ORDER BY j.scheduled_at LIMIT 1) next
		HAVING count(*) > 0`), queues).Scan(&seconds)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // See above.
	}
	if err != nil {
		return nil, d.failed(err, false)
	}
	return new(time.Duration(seconds * float64(time.Second))), nil
}

// Work implements driver.Driver.
func (d *Driver) Work(ctx context.Context, now time.Time) (driver.Work, error) {
	if err := d.usable(ctx); err != nil {
		return driver.Work{}, err
	}
	var work driver.Work
	var name string
	var ready bool
	var wait *float64
	// One statement, so that no job is due between what is ready and what is next.
	found, err := d.pool.Query(ctx, d.sql(`SELECT q.name, coalesce(bool_or(due.is), false),
			extract(epoch FROM least(min(next.scheduled_at), now() + interval '1 day') - now())::float8
		FROM unnest($1::text[]) q(name) CROSS JOIN unnest(ARRAY['available', 'scheduled', 'retryable']) st(state) CROSS JOIN unnest(ARRAY[1, 2, 3, 4]) p(priority)
			LEFT JOIN LATERAL (SELECT true AS is FROM {s}.river_job j WHERE j.state = st.state::{s}.river_job_state AND j.queue = q.name AND j.priority = p.priority
				AND j.scheduled_at <= now() LIMIT 1) due ON true
			LEFT JOIN LATERAL (SELECT scheduled_at FROM {s}.river_job j WHERE j.state = st.state::{s}.river_job_state AND j.queue = q.name AND j.priority = p.priority
				AND j.scheduled_at > now() ORDER BY j.scheduled_at LIMIT 1) next ON true
		GROUP BY q.name ORDER BY q.name`), d.opts.Queues)
	if err == nil {
		err = scanEach(found, func() {
			if ready {
				work.Queues = append(work.Queues, driver.QueueWork{Queue: name, Ready: true})
			}
			if wait == nil {
				return
			}
			if at := now.Add(time.Duration(*wait * float64(time.Second))); work.Next.IsZero() || at.Before(work.Next) {
				work.Next = at
			}
		}, &name, &ready, &wait)
	}
	if err != nil {
		return driver.Work{}, fmt.Errorf("querying which queues have work: %w", d.failed(err, false))
	}
	return work, nil
}

// Unfinished implements driver.Driver.
func (d *Driver) Unfinished(ctx context.Context) ([]string, error) {
	names, err := d.namesOf(ctx, readUnfinished, d.opts.Queues)
	if err != nil {
		return nil, fmt.Errorf("querying queues with unfinished jobs: %w", err)
	}
	return names, nil
}

// IsIdle implements driver.IdleProber. It reads no job that has ended.
func (d *Driver) IsIdle(ctx context.Context, queue string) (bool, error) {
	names, err := d.namesOf(ctx, readUnfinished, []string{queue})
	if err != nil {
		return false, fmt.Errorf("querying whether queue %q has unfinished jobs: %w", queue, err)
	}
	return len(names) == 0, nil
}

// readUnfinished selects those of some queues that have jobs that have not ended. Without the order, the planner may
// scan the table for each state.
const readUnfinished = `SELECT q.name FROM unnest($1::text[]) q(name) WHERE EXISTS (
	SELECT 1 FROM unnest(ARRAY['available', 'pending', 'retryable', 'running', 'scheduled']) st(state), unnest(ARRAY[1, 2, 3, 4]) p(priority),
		LATERAL (SELECT 1 FROM {s}.river_job j WHERE j.state = st.state::{s}.river_job_state AND j.queue = q.name AND j.priority = p.priority
			ORDER BY j.scheduled_at LIMIT 1) unfinished) ORDER BY q.name`

// namesOf returns the names that a statement about some queues selects.
func (d *Driver) namesOf(ctx context.Context, text string, queues []string) ([]string, error) {
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	return d.collectNames(d.pool.Query(ctx, d.sql(text), queues))
}

// idOf returns the number of the job of a lease. The name of a record ends with it.
func idOf(l driver.Lease) (int64, bool) {
	_, text, _ := cutLast(l.Name, ".")
	id, err := strconv.ParseInt(text, 10, 64)
	return id, err == nil
}

// extension is a call of Extend.
type extension struct {
	ids              []int64
	claims, prefixes []string
	isRenewed        []bool
}

// Extend implements driver.Driver.
func (d *Driver) Extend(ctx context.Context, leases []driver.Lease, leaseTime time.Duration) (lost []driver.Lease, err error) {
	err = d.usable(ctx)
	if err != nil {
		return nil, err
	}
	e := extension{isRenewed: make([]bool, len(leases))}
	for _, l := range leases {
		id, _ := idOf(l) // 0 is no job
		e.ids = append(e.ids, id)
		e.claims = append(e.claims, token{l.Owner, l.Count, leaseTime}.String())
		e.prefixes = append(e.prefixes, token{l.Owner, l.Count, 0}.prefix())
	}
	locked, err := d.aroundLocked(ctx, holding{patience: patience}, e.ids, func(ids []int64) (seen []int64, err error) { return d.extend(ctx, &e, ids) })
	if err != nil {
		return nil, fmt.Errorf("renewing leases: %w", err)
	}
	var blocked driver.BlockedLeasesError
	for i, l := range leases {
		switch {
		case e.isRenewed[i]:
		case slices.Contains(locked, e.ids[i]):
			blocked.Leases = append(blocked.Leases, l)
		default:
			lost = append(lost, l)
			d.claimed.Delete(l)
		}
	}
	if len(blocked.Leases) > 0 {
		return lost, &blocked
	}
	return lost, nil
}

// extend renews the leases of rows that no other transaction has locked, and returns the ids of these rows.
func (d *Driver) extend(ctx context.Context, e *extension, ids []int64) (unlocked []int64, err error) {
	tx, err := d.begin(ctx, false)
	if err != nil {
		return nil, d.failed(err, false)
	}
	defer pgconnect.Rollback(ctx, tx)
	found, err := tx.Query(ctx, d.sql(`SELECT id FROM {s}.river_job WHERE id = ANY($1::bigint[]) ORDER BY id FOR UPDATE SKIP LOCKED`), ids)
	var id int64
	if err == nil {
		err = scanEach(found, func() { unlocked = append(unlocked, id) }, &id)
	}
	if err != nil || len(unlocked) == 0 {
		return nil, d.failed(err, false)
	}
	var renewed []int
	found, err = tx.Query(ctx, d.sql(`UPDATE {s}.river_job j SET attempted_at = clock_timestamp(), attempted_by = j.attempted_by[:cardinality(j.attempted_by) - 1] || l.claim
		FROM unnest($1::bigint[], $2::text[], $3::text[]) WITH ORDINALITY l(id, claim, prefix, place)
		WHERE j.id = l.id AND j.id = ANY($4::bigint[]) AND j.state = 'running' AND starts_with(j.attempted_by[cardinality(j.attempted_by)], l.prefix)
		RETURNING l.place`), e.ids, e.claims, e.prefixes, unlocked)
	var place int
	if err == nil {
		err = scanEach(found, func() { renewed = append(renewed, place-1) }, &place)
	}
	if err == nil {
		err = tx.Commit(ctx)
	}
	if err != nil {
		return nil, d.failed(err, false)
	}
	for _, i := range renewed {
		e.isRenewed[i] = true
	}
	return unlocked, nil
}

// CancelRequests implements driver.Driver.
func (d *Driver) CancelRequests(ctx context.Context, owner string) ([]driver.Lease, error) {
	rows, err := d.read(ctx, selection{
		where: `state = 'running' AND queue = ANY($1::text[]) AND metadata ? 'cancel_attempted_at'`, args: []any{d.opts.Queues},
	})
	if err != nil {
		return nil, fmt.Errorf("querying jobs to cancel: %w", err)
	}
	var leases []driver.Lease
	for _, r := range rows {
		if r.lease().owner == owner {
			leases = append(leases, driver.LeaseOf(r.record()))
		}
	}
	return leases, nil
}

// rescueAfter is how long River's rescuer lets a job run whose process says nothing.
const rescueAfter = time.Hour

// isStale reports whether the lease of a running row is over. That of a process of River lasts as
// long as River's rescuer lets a job run.
func (r *row) isStale() bool {
	lease := r.token().lease
	if lease == 0 {
		lease = rescueAfter
	}
	return r.state == stateRunning && r.now.Sub(r.attemptedAt) > lease
}

// rescued is the error of an attempt whose process said nothing, in the words of River.
const rescued = "Stuck job rescued by JobRescuer"

// RecoverStale implements driver.Driver. As in River, the run counts as an attempt that failed.
func (d *Driver) RecoverStale(ctx context.Context, keep ...driver.Lease) (int, error) {
	var claimed []any
	d.claimed.Range(func(lease, _ any) bool {
		claimed = append(claimed, lease)
		return true
	})
	running, err := d.read(ctx, selection{where: `state = 'running' AND queue = ANY($1::text[])`, args: []any{d.opts.Queues}})
	if err != nil {
		return 0, fmt.Errorf("querying running jobs: %w", err)
	}
	d.dropEnded(claimed, running)
	var stale []int64
	for _, r := range running {
		if r.isStale() && !slices.Contains(keep, driver.LeaseOf(r.record())) {
			stale = append(stale, r.id)
		}
	}
	if len(stale) == 0 {
		return 0, nil
	}
	selected := byIDs(stale)
	selected.skip = true
	recovered, err := d.change(ctx, selected, func(r *row) {
		if !r.isStale() || slices.Contains(keep, driver.LeaseOf(r.record())) {
			return
		}
		r.put(keyRescues, r.number(keyRescues)+1)
		r.fail(r.now, rescued, "", -1)
	}, releaseKey)
	if err != nil {
		return 0, fmt.Errorf("recovering %d jobs: %w", len(stale), err)
	}
	d.changed(driver.Anywhere)
	return len(recovered), nil
}

// dropEnded forgets what was claimed of the metadata of jobs that do not run any more, such as those that a
// transaction of a caller has ended.
func (d *Driver) dropEnded(claimed []any, running []*row) {
	runs := map[driver.Lease]bool{}
	for _, r := range running {
		runs[driver.LeaseOf(r.record())] = true
	}
	for _, lease := range claimed {
		if !runs[lease.(driver.Lease)] {
			d.claimed.Delete(lease)
		}
	}
}

// Forget implements driver.Driver. It removes jobs that ended longer ago than Options.KeepCompleted
// and the like; the retention of definitions and queues does not apply.
func (d *Driver) Forget(ctx context.Context, _ time.Time, limit int) (int, error) {
	if err := d.usable(ctx); err != nil {
		return 0, err
	}
	n := 0
	for _, keep := range []struct {
		state string
		time  time.Duration
	}{{stateCompleted, d.opts.KeepCompleted}, {stateCancelled, d.opts.KeepCancelled}, {stateDiscarded, d.opts.KeepDiscarded}} {
		if keep.time == KeepForever || n >= limit {
			continue
		}
		tag, err := d.pool.Exec(ctx, d.sql(`DELETE FROM {s}.river_job WHERE id IN (
			SELECT id FROM {s}.river_job WHERE state = $1::text::{s}.river_job_state AND finalized_at < clock_timestamp() - $2::bigint * interval '1 microsecond'
				AND queue = ANY($3::text[]) ORDER BY finalized_at LIMIT $4 FOR UPDATE SKIP LOCKED)`),
			keep.state, keep.time.Microseconds(), d.opts.Queues, limit-n)
		if err != nil {
			return n, fmt.Errorf("removing jobs that ended: %w", d.failed(err, false))
		}
		n += int(tag.RowsAffected())
	}
	return n, nil
}
