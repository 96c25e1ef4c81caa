package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// endedAtOnce is the maximum number of records that one statement ends or extends.
const endedAtOnce = 1000

// ending is a completion.
type ending struct {
	*table.Ending
	lease driver.Lease
	// next is the next attempt; nil if there is none.
	next *newRecord
	// mayFree is true if the end may let other records of its queue run.
	mayFree bool
}

// Complete implements driver.Driver. Attempts without scopes and dependents end in one statement
// for up to 1,000 of them, the others one by one. If ctx carries a transaction (see WithTx),
// Complete writes in it.
func (d *Driver) Complete(ctx context.Context, completions []driver.Completion) ([]error, error) {
	theirs, err := d.callersTransaction(ctx, true)
	if err != nil {
		return nil, fmt.Errorf("completing %d records in the caller's transaction: %w", len(completions), err)
	}
	errs := make([]error, len(completions))
	isDone := make([]bool, len(completions))
	endings := newEndings(completions, errs, isDone)
	times := momentsOf(nextOf(endings)...)
	if theirs != nil {
		err = d.completeIn(ctx, theirs, endings, errs, isDone, times)
		if err != nil {
			return nil, fmt.Errorf("completing %d records in the caller's transaction, which must be rolled back: %w", len(completions), err)
		}
		return errs, nil
	}
	fail := func(err error) ([]error, error) {
		d.noteWritten(times) // Some may have been written.
		if errors.Is(err, driver.ErrOutcomeUnknown) || slices.Contains(isDone, true) {
			d.changed(driver.Anywhere)
		}
		if !slices.Contains(isDone, true) {
			return nil, fmt.Errorf("completing %d records: %w", len(completions), err)
		}
		err = fmt.Errorf("completing %d records: %w: %w", len(completions), driver.ErrOutcomeUnknown, err)
		for i := range errs {
			if !isDone[i] {
				errs[i] = err
			}
		}
		return errs, nil
	}
	for start, end := 0, 0; start < len(endings); start = end {
		end = start + endedTogether(endings[start:])
		err := d.completeTogether(ctx, endings[start:end], errs[start:end], isDone[start:end])
		if err != nil {
			return fail(err)
		}
	}
	for _, group := range leftOf(endings, isDone) {
		sortByLease(group.items, func(i int) driver.Lease { return endings[i].lease })
		err := d.eachOf(ctx, true, group.queue, group.items, errs, isDone, expectedOf(endings), func(c *changes, queue queueKey, i int) (refusal, err error) {
			return c.complete(queue, endings[i])
		})
		if err != nil {
			return fail(err)
		}
	}
	if len(completions) > 0 {
		d.noteWritten(times)
		d.changed(newsOf(endings))
	}
	return errs, nil
}

// endedTogether returns how many of the first endings one statement may end, at least one.
func endedTogether(endings []*ending) (n int) {
	size := 0
	for n < min(len(endings), endedAtOnce) {
		size += endings[n].size()
		if n > 0 && size > bytesAtOnce {
			break
		}
		n++
	}
	return n
}

// size returns the size of the bodies that the end writes; e may be nil.
func (e *ending) size() int {
	switch {
	case e == nil:
		return 0
	case e.next == nil:
		return len(e.Body)
	default:
		return len(e.Body) + len(e.next.Body)
	}
}

// newsOf returns what the ends of records may have made claimable.
func newsOf(endings []*ending) (news driver.Change) {
	for _, e := range endings {
		if e != nil && e.mayFree {
			news = news.With(driver.In(e.lease.Queue))
		}
	}
	return news
}

// nextOf returns the next attempts.
func nextOf(endings []*ending) (all []*newRecord) {
	for _, e := range endings {
		if e != nil && e.next != nil {
			all = append(all, e.next)
		}
	}
	return all
}

// newEndings encodes the records of ended attempts. It sets isDone for records that can't be
// encoded.
func newEndings(completions []driver.Completion, errs []error, isDone []bool) []*ending {
	endings := make([]*ending, len(completions))
	for i, completion := range completions {
		e, err := table.NewEnding(completion.Lease.Name, completion.Record)
		if err != nil {
			errs[i], isDone[i] = err, true
			continue
		}
		endings[i] = &ending{Ending: e, lease: completion.Lease}
		if completion.Next != nil {
			e.Replaced = true
			if endings[i].next, err = encodeNew(0, completion.Next); err != nil {
				errs[i], isDone[i] = err, true
			}
		}
	}
	return endings
}

// leftOf groups the endings that are not done by their queues. Each of them may let other records
// run.
func leftOf(endings []*ending, isDone []bool) []*group {
	return byQueue(len(endings), func(i int) (string, bool) {
		if isDone[i] {
			return "", false
		}
		endings[i].mayFree = true
		return endings[i].lease.Queue, true
	})
}

// completeIn ends attempts in the caller's transaction.
func (d *Driver) completeIn(ctx context.Context, theirs querier, endings []*ending, errs []error, isDone []bool, times moments) error {
	done, err := d.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	for start, end := 0, 0; start < len(endings); start = end {
		end = start + endedTogether(endings[start:])
		if err := d.completePlainIn(ctx, theirs, endings[start:end], isDone[start:end]); err != nil {
			return err
		}
	}
	for _, g := range leftOf(endings, isDone) {
		written, err := d.completeLeftIn(ctx, theirs, g, endings, errs)
		if err != nil {
			return err
		}
		times = times.and(written)
	}
	return d.signals.sendIn(ctx, theirs, newsOf(endings).MayClaim, times)
}

// completeLeftIn ends attempts of one queue one by one, and returns the times of the records that wait now.
func (d *Driver) completeLeftIn(ctx context.Context, theirs querier, g *group, endings []*ending, errs []error) (written moments, err error) {
	key, _, err := d.findQueue(ctx, theirs, g.queue)
	if err != nil {
		return written, err
	}
	key.name = g.queue
	c := &changes{ctx: ctx, on: theirs, d: d}
	err = c.lock(key.id)
	if err != nil {
		return written, err
	}
	for some := range slices.Chunk(g.items, changedAtOnce) {
		err = c.expect(key, some, expectedOf(endings))
		if err != nil {
			return written, err
		}
		for _, i := range some {
			if errs[i], err = c.complete(key, endings[i]); err != nil {
				return written, err
			}
		}
	}
	err = c.flush()
	return c.written, err
}

// leaseColumns are the columns of leases for a statement.
type leaseColumns struct {
	queue       []int32
	id          []string
	name, owner []string
	count       []int64
	stamp       []int64
	index       []int
}

// add adds a lease, unless its queue is not known to exist.
func (c *leaseColumns) add(ctx context.Context, d *Driver, on querier, l driver.Lease, index int) (added bool, err error) {
	key, found, err := d.findQueue(ctx, on, l.Queue)
	if err != nil || !found || !isStorable(l.Name) || !isStorable(l.Owner) {
		return false, err
	}
	id, _ := idOfAttempt(l.Queue, l.Name)
	c.queue, c.id, c.name = append(c.queue, key.id), append(c.id, id), append(c.name, l.Name)
	c.owner, c.count = append(c.owner, l.Owner), append(c.count, int64(l.Count))
	c.stamp, c.index = append(c.stamp, l.Stamp), append(c.index, index)
	return true, nil
}

// completeTogether ends the attempts that can end in one statement, and sets isDone for them. It also
// sets it, and an error, for attempts that are blocked.
func (d *Driver) completeTogether(ctx context.Context, endings []*ending, errs []error, isDone []bool) error {
	for _, together := range []struct {
		isFor    func(*ending) bool
		complete func(context.Context, patience, []*ending, []int, []bool) error
	}{
		{(*ending).isPlain, d.completePlain},
		{(*ending).isReplaced, d.completeReplaced},
	} {
		items := itemsOf(endings, isDone, together.isFor)
		if len(items) == 0 {
			continue
		}
		around := leasesAround{
			d: d, leaseOf: func(i int) driver.Lease { return endings[i].lease }, locked: lockedLeases,
			change: func(some []int, p patience) error { return together.complete(ctx, p, endings, some, isDone) },
		}
		blocked, err := around.do(ctx, items)
		if err != nil {
			return err
		}
		for _, i := range blocked {
			errs[i], isDone[i] = blockedError(endings[i].lease.Name), true
		}
	}
	return nil
}

// expectedOf returns a function that returns the name of the record of an ending, and its scopes.
func expectedOf(endings []*ending) func(i int) (name string, scopes []string) {
	return func(i int) (string, []string) { return endings[i].lease.Name, endings[i].AllScopes() }
}

// isPlain reports whether the statement endPlain may end an attempt.
func (e *ending) isPlain() bool {
	return e.next == nil && len(e.Scopes) == 0 && len(e.EnqueueScopes) == 0
}

// isReplaced reports whether the statement endReplaced may end an attempt. That finds attempts by name, and so not a
// job that became retryable while it ran, whose row has the name of a job without attempts.
func (e *ending) isReplaced() bool {
	if e.next == nil || !e.next.isPlain() || e.next.UniqueKey != "" {
		return false
	}
	_, isAttempt := idOfAttempt(e.lease.Queue, e.lease.Name)
	return isAttempt
}

// itemsOf returns the indexes of the endings that are not done, of one kind.
func itemsOf(endings []*ending, isDone []bool, isOne func(*ending) bool) (items []int) {
	for i, e := range endings {
		if !isDone[i] && isOne(e) {
			items = append(items, i)
		}
	}
	return items
}

// completePlain ends attempts that have no next ones.
func (d *Driver) completePlain(ctx context.Context, p patience, endings []*ending, items []int, isDone []bool) error {
	c, err := d.endArgs(ctx, d.reader(), endings, items)
	if err != nil || len(c.index) == 0 {
		return err
	}
	d.floors.tallied(c.leaseColumns.queue...)
	end, args := c.plain()
	ended, err := changeWithin(ctx, d, p, end, endedOf, args...)
	for _, e := range ended {
		c.setEnded(e, endings, isDone)
	}
	return err
}

// completePlainIn ends attempts that have no next ones in the caller's transaction.
func (d *Driver) completePlainIn(ctx context.Context, theirs querier, endings []*ending, isDone []bool) error {
	c, err := d.endArgs(ctx, theirs, endings, itemsOf(endings, isDone, (*ending).isPlain))
	if err != nil || len(c.index) == 0 {
		return err
	}
	d.floors.tallied(c.leaseColumns.queue...)
	end, args := c.plain()
	return theirs.query(ctx, d.texts[end], func(r *row) error {
		c.setEnded(endedOf(r), endings, isDone)
		return nil
	}, args...)
}

// endArgs are the arguments of the statements that end attempts.
type endArgs struct {
	leaseColumns
	columns
	names, reasons, lastErrors []pgtype.Text
	places                     []int16
}

// ended is a result of endPlain or endOne: the number of the argument, and whether the end may let other
// records of its queue run.
type ended struct {
	number  int64
	mayFree bool
}

func endedOf(r *row) ended { return ended{r.integer(), r.bool()} }

// setEnded records a result of endPlain.
func (c *endArgs) setEnded(e ended, endings []*ending, isDone []bool) {
	i := c.index[e.number-1]
	isDone[i], endings[i].mayFree = true, e.mayFree
}

// endArgs returns the arguments for some endings.
func (d *Driver) endArgs(ctx context.Context, on querier, endings []*ending, items []int) (*endArgs, error) {
	c := &endArgs{}
	for _, i := range items {
		e := endings[i]
		added, err := c.leaseColumns.add(ctx, d, on, e.lease, i)
		if err != nil {
			return nil, d.failed(ctx, err, false)
		}
		if !added {
			continue
		}
		_, isAttempt := idOfAttempt(e.lease.Queue, e.lease.Name)
		c.names = append(c.names, pgtype.Text{String: e.lease.Name, Valid: isAttempt})
		c.reasons, c.lastErrors = append(c.reasons, nullable(e.Reason)), append(c.lastErrors, nullable(e.LastError))
		c.places = append(c.places, int16(e.To))
		c.columns.add(&newRecord{stored: stored{job: job{Job: e.Job}, Content: e.Content}}, 0, false)
	}
	return c, nil
}

// plain returns the statement that ends the attempts without next ones, and its arguments.
func (c *endArgs) plain() (statement, []any) {
	if len(c.index) == 1 {
		return endOne, valuesOf(c.args())
	}
	return endPlain, c.args()
}

func (c *endArgs) args() []any {
	l, r := &c.leaseColumns, &c.columns
	return []any{
		l.queue, l.id, c.names, l.owner, l.count, c.places, r.owner, r.count, r.modTime, r.created, r.started, r.ended,
		r.waitUntil, r.dispatchBy, r.maxTime, r.errorCount, c.lastErrors, c.reasons, r.forgetAt, r.jobType, r.version, r.format, r.dependency,
		r.progress, r.extra, r.body, l.stamp,
	}
}

// completeReplaced ends attempts that the next ones replace. If several ends have the same lease it tries
// only the first, because the next attempt can be inserted only once. The others are refused when they are
// tried one by one.
func (d *Driver) completeReplaced(ctx context.Context, p patience, endings []*ending, items []int, isDone []bool) error {
	seen := make(map[driver.Lease]bool, len(items))
	items = slices.DeleteFunc(slices.Clone(items), func(i int) bool {
		again := seen[endings[i].lease]
		seen[endings[i].lease] = true
		return again
	})
	c, err := d.endArgs(ctx, d.reader(), endings, items)
	if err != nil || len(c.index) == 0 {
		return err
	}
	var all []*newRecord
	var names, nextNames []string
	for _, i := range c.index {
		all = append(all, endings[i].next)
		names, nextNames = append(names, endings[i].lease.Name), append(nextNames, endings[i].next.Name)
	}
	err = d.place(ctx, d.reader(), all)
	if err != nil {
		return d.failed(ctx, err, false)
	}
	next := columnsOf(all)
	d.floors.tallied(c.leaseColumns.queue...)
	var done []int
	err = d.retrying(ctx, func(ctx context.Context) (bool, error) {
		done = nil
		return d.pipeline(ctx, func(b *batch) {
			b.planWithin(p)
			b.exec(lockInserts, d.insertLocks(all))
			b.query(endReplaced, func(r *row) error {
				done = append(done, c.index[r.integer()-1])
				return nil
			}, append(c.args(), nextNames, next.line, next.priority)...)
			b.exec(insertNext, append(next.args(), names)...)
		})
	})
	for _, i := range done {
		isDone[i], endings[i].mayFree = err == nil, true
	}
	return err
}

func (c *changes) complete(queue queueKey, e *ending) (refusal, err error) {
	j, refusal, err := c.shown(queue, e.lease)
	if refusal != nil || err != nil {
		return refusal, err
	}
	if j.Cancel {
		return nil, c.endCanceledRun(j, e.Ending)
	}
	if e.next == nil {
		return nil, c.end(j, e.Ending)
	}
	refusal, err = c.checkNext(j, e.next)
	if refusal != nil || err != nil {
		return refusal, err
	}
	if j.Open { // it did not wait until all its dependencies ended
		c.exec(leaveEdges, j.Seq)
	}
	return nil, c.replaceByNext(j, e.Ending, e.next)
}

// checkNext refuses a next attempt that can't replace a record.
func (c *changes) checkNext(j *job, next *newRecord) (refusal, err error) {
	taken, err := c.named(queueKey{j.queue, j.queueName}, next.Name)
	if err != nil {
		return nil, err
	}
	if taken != nil {
		return next.Duplicate(taken.ID), nil
	}
	return c.checkFree(j, next.EnqueueScopes)
}

// endCanceledRun ends an attempt that was to be canceled.
func (c *changes) endCanceledRun(j *job, e *table.Ending) error {
	var reason string
	var forgetAt table.Instant
	_, err := c.one(readMark, func(r *row) { reason, forgetAt = r.text(), r.time() }, j.Seq)
	if err == nil {
		e, err = e.Canceled(reason, forgetAt)
	}
	if err != nil {
		return err
	}
	return c.end(j, e)
}

// end ends an attempt, whatever place its record has.
func (c *changes) end(j *job, e *table.Ending) error {
	if err := c.replace(j, e); err != nil {
		return err
	}
	if j.Open { // it did not wait until all its dependencies ended
		c.exec(leaveEdges, j.Seq)
	}
	if e.To == table.Retrying {
		return c.free(j, j.DispatchScopes())
	}
	if err := c.free(j, j.AllScopes()); err != nil {
		return err
	}
	return c.releaseDependents(j)
}

// replace stores the record of an ended attempt, and moves the row to its final place.
func (c *changes) replace(j *job, e *table.Ending) error {
	keepsKey := !e.Replaced && j.KeepsKey(e.To)
	c.exec(endAny, j.Seq, storable(e.Owner), e.Count, e.ModTime, e.Created, e.Started, e.Ended, e.WaitUntil, e.DispatchBy, e.MaxTime,
		e.ErrorCount, nullable(e.LastError), nullable(e.Reason), e.ForgetAt, storable(e.Type), e.Version, e.Format, e.Dependency, blob(e.Extra), e.Body,
		blob(e.Progress), e.Replaced, keepsKey, e.To)
	wasReady := j.Place == table.Ready
	c.moveTo(j, e.To, table.Instant{}, "")
	if wasReady {
		return c.withdraw(j)
	}
	return nil
}
