package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// insertAtOnce is the maximum number of records that are inserted in one transaction, so that
// none takes long, and oneByOneAtOnce that of records which are inserted one by one, under the lock
// of their queue.
const (
	insertAtOnce   = 1000
	oneByOneAtOnce = 32
)

// bytesAtOnce is the size of the bodies from which a statement gets no more records. A server refuses a message of a
// gigabyte, and needs several times its memory.
const bytesAtOnce = 16 << 20

// Insert implements driver.Driver. If ctx carries a transaction (see WithTx), Insert writes in it. Otherwise
// it writes transactions of up to 1,000 records with 16 MB, or 32 that have scopes or edges. If one fails, its
// records and all after them get the error. Concurrent calls with one record each may share a transaction; an error
// that concerns one of the records is then not that of the others.
func (d *Driver) Insert(ctx context.Context, records []*driver.Record) ([]error, error) {
	done, err := d.begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("inserting %d records: %w", len(records), err)
	}
	defer done()
	sorted, errs := table.EncodeSorted(records, encodeInserted)
	times := momentsOf(sorted...)
	theirs, err := d.callersTransaction(ctx, slices.ContainsFunc(sorted, func(n *newRecord) bool { return !n.isPlain() }))
	if err != nil {
		return nil, fmt.Errorf("inserting %d records in the caller's transaction: %w", len(records), err)
	}
	all := runsOf(sorted)
	for i, some := range all {
		if err = d.insertRun(ctx, theirs, some, times); err == nil {
			for _, n := range some {
				errs[n.index] = n.refusal
			}
			continue
		}
		err = fmt.Errorf("inserting %d records: %w", len(some), err)
		if i == 0 || theirs != nil {
			if errors.Is(err, driver.ErrOutcomeUnknown) {
				d.noteWritten(times)
				d.changed(driver.Anywhere)
			}
			return nil, err
		}
		for _, n := range slices.Concat(all[i:]...) {
			errs[n.index] = err
		}
		break
	}
	if theirs == nil && len(sorted) > 0 {
		d.noteWritten(times)
		for _, n := range sorted {
			d.tops.raise(n.queue, n.Priority)
		}
		d.subscribers.Notify(driver.InQueuesOf(sorted, func(n *newRecord) string { return n.queueName }))
		if slices.ContainsFunc(sorted, func(n *newRecord) bool { return !n.isAnnounced }) {
			d.signals.send(true)
		}
	}
	return errs, nil
}

// isPlain reports whether a record is inserted with others in one statement: it takes no scopes,
// depends on no job, and waits to run.
func (n *newRecord) isPlain() bool {
	return n.preset == 0 && len(n.Scopes) == 0 && len(n.EnqueueScopes) == 0 && len(n.Edges) == 0
}

// runsOf divides records into runs that are inserted together: plain records, or other records of
// one queue.
func runsOf(all []*newRecord) (runs [][]*newRecord) {
	for len(all) > 0 {
		n, most, size := 1, insertAtOnce, len(all[0].Body)
		if !all[0].isPlain() {
			most = oneByOneAtOnce
		}
		for n < min(len(all), most) && all[n].isPlain() == all[0].isPlain() &&
			(all[n].isPlain() || all[n].queueName == all[0].queueName) && size+len(all[n].Body) <= bytesAtOnce {
			size += len(all[n].Body)
			n++
		}
		runs = append(runs, all[:n])
		all = all[n:]
	}
	return runs
}

// insertRun inserts a run, in the caller's transaction if that is not nil. times are those of all records.
func (d *Driver) insertRun(ctx context.Context, theirs querier, some []*newRecord, times moments) error {
	on := theirs
	if on == nil {
		on = d.reader()
	}
	if err := d.place(ctx, on, some); err != nil {
		return d.failed(ctx, err, false)
	}
	switch {
	case some[0].isPlain() && theirs != nil:
		return d.insertPlainIn(ctx, theirs, some, times)
	case some[0].isPlain() && len(some) == 1:
		return d.shared.insert(ctx, some[0])
	case some[0].isPlain():
		return d.insertOwn(ctx, some)
	case theirs != nil:
		c := &changes{ctx: ctx, on: theirs, d: d}
		err := c.lock(some[0].queue)
		if err == nil {
			err = c.insertAll(some)
		}
		if err == nil {
			err = c.flush()
		}
		if err != nil {
			return err
		}
		return d.signals.sendIn(ctx, theirs, true, c.written)
	default:
		err := d.transact(ctx, some[0].queue, func(c *changes) error { return c.insertAll(some) })
		if isLineGone(err) {
			d.forgetIDs()
			return d.insertRun(ctx, nil, some, times)
		}
		return err
	}
}

// place finds the queues and the lines of records.
func (d *Driver) place(ctx context.Context, on querier, some []*newRecord) error {
	for _, n := range some {
		queue, err := d.ensureQueue(ctx, on, n.queueName)
		if err != nil {
			return err
		}
		n.queue, n.refusal = queue.id, nil
		n.line, err = d.ensureLine(ctx, on, n.lineKey())
		if err != nil {
			return err
		}
	}
	return nil
}

// insertLocks returns the sorted keys of the locks for an insert of records.
func (d *Driver) insertLocks(some []*newRecord) (keys []int64) {
	for _, n := range some {
		key := d.lockKey(lockOfInserts, n.queue)
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// insertOwn inserts plain records in a transaction of their own.
func (d *Driver) insertOwn(ctx context.Context, some []*newRecord) error {
	err := d.insertOnce(ctx, some)
	if err != nil {
		return err
	}
	return d.explainOwn(ctx, some)
}

func (d *Driver) insertOnce(ctx context.Context, some []*newRecord) error {
	return d.retrying(ctx, func(ctx context.Context) (mayBeDone bool, err error) {
		return d.insertPlain(ctx, beginInserts, d.insertLocks(some), some, "")
	})
}

// insertTries is the maximum number of tries to insert a record that nothing is in the way of.
const insertTries = 4

// explainOwn determines why records were not added by a transaction that is committed. If there is no
// reason any more, it adds them: what was in the way is gone, or a failover has lost their line.
func (d *Driver) explainOwn(ctx context.Context, some []*newRecord) error {
	for try := 1; ; try++ {
		err := d.explainRefused(ctx, d.reader(), some)
		left := slices.DeleteFunc(slices.Clone(some), func(n *newRecord) bool { return n.isAdded || n.refusal != nil })
		if err == nil && len(left) == 0 {
			return nil
		}
		if err == nil && try == insertTries {
			err = fmt.Errorf("job %q could not be added, and nothing is in its way", left[0].ID)
		}
		if err == nil {
			d.forgetIDs()
			err = d.place(ctx, d.reader(), left)
		}
		if err == nil {
			err = d.insertOnce(ctx, left)
		}
		if err != nil {
			isAdded := func(n *newRecord) bool { return n.isAdded }
			return d.failed(ctx, err, slices.ContainsFunc(some, isAdded))
		}
	}
}

// insertPlain inserts plain records, in one round trip, and sets isAdded of those that were not
// refused. begin is the first statement, which takes locks. After the commit a notification with the text of news is
// sent, unless that is empty.
func (d *Driver) insertPlain(ctx context.Context, begin statement, locks any, some []*newRecord, news string) (mayBeDone bool, err error) {
	for _, n := range some {
		n.isAdded = false // an earlier try may have set it
	}
	c := columnsOf(some)
	insert, args := insertJobs, c.args()
	if len(some) == 1 {
		insert, args = insertJob, valuesOf(args)
	}
	isCommitted := false
	mayBeDone, err = d.pipeline(ctx, func(b *batch) {
		if news != "" {
			b.begin()
		}
		b.exec(begin, locks)
		b.query(insert, setAdded(some), args...)
		if news != "" {
			b.commit(&isCommitted)
			b.exec(notify, d.signals.channel, news)
		}
	})
	if isCommitted && err != nil { // only the notification failed
		d.signals.send(true)
		mayBeDone, err = false, nil
	}
	if err == nil {
		d.followPool()
		d.floors.tallied(c.queue...)
	}
	return mayBeDone, err
}

// setAdded returns a function that reads the result of insertJobs or insertJob.
func setAdded(some []*newRecord) func(*row) error {
	return func(r *row) error {
		some[r.integer()-1].isAdded = true
		return nil
	}
}

func (d *Driver) insertPlainIn(ctx context.Context, theirs querier, some []*newRecord, times moments) error {
	all := []queued{{text: d.texts[lockInserts], args: []any{d.insertLocks(some)}}}
	if _, isOld := theirs.(snapshotQuerier); isOld {
		err := theirs.send(ctx, all)
		if err == nil {
			err = d.refuseDrained(ctx, theirs, some)
		}
		if err != nil {
			return err
		}
		all = nil
		some = slices.DeleteFunc(slices.Clone(some), func(n *newRecord) bool { return n.refusal != nil })
	}
	all = append(all, queued{text: d.texts[insertJobsOfCaller], args: columnsOf(some).args(), each: setAdded(some)})
	err := theirs.send(ctx, append(all, d.signals.inTransaction(true, times)...))
	if err == nil {
		err = d.explainRefused(ctx, theirs, some)
	}
	for _, n := range some {
		if !n.isAdded && n.refusal == nil { // what was in the way is gone by now
			n.refusal = n.Duplicate("")
		}
	}
	return err
}

// refuseDrained refuses records of draining queues. The snapshot of the caller's transaction may be older
// than the drain, so the settings are read outside it. Its locks keep drains waiting from now on.
func (d *Driver) refuseDrained(ctx context.Context, theirs querier, some []*newRecord) error {
	return d.outside(ctx, theirs, func(on querier) error {
		c := &changes{ctx: ctx, on: on, d: d}
		isDraining := map[int32]bool{}
		for _, n := range some {
			if _, known := isDraining[n.queue]; !known {
				control, err := c.control(n.queue)
				if err != nil {
					return err
				}
				isDraining[n.queue] = control.Draining
			}
			if isDraining[n.queue] {
				n.refusal = n.drained()
			}
		}
		return nil
	})
}

func (n *newRecord) drained() error {
	return fmt.Errorf("job %q: queue %q: %w", n.ID, n.queueName, amboy.ErrQueueDraining)
}

// explainRefused determines why records were not added. The reason may be gone by now.
func (d *Driver) explainRefused(ctx context.Context, on querier, some []*newRecord) (err error) {
	for _, n := range some {
		if n.isAdded {
			continue
		}
		c := &changes{ctx: ctx, on: on, d: d}
		n.refusal, err = c.refusal(n)
		if err != nil {
			return err
		}
	}
	return nil
}

// refusal returns why a record can't be added; nil if it could be added now.
func (c *changes) refusal(n *newRecord) (refusal, err error) {
	c.askTaken([]*newRecord{n})
	control, err := c.control(n.queue)
	if err != nil {
		return nil, err
	}
	if control.Draining {
		return n.drained(), nil
	}
	return c.admissible(n)
}

// columns are the arguments of the inserting statements, column by column.
type columns struct {
	queue, line                                                        []int32
	priority, maxTime, count, errorCount, version                      []int64
	created, waitUntil, dispatchBy, modTime, started, ended, forgetAt  []pgtype.Int8
	attempt                                                            []pgtype.Int8
	format, dependency, wanted                                         []int16
	open, dependents, uniqueHeld                                       []bool
	owner, id, jobType                                                 []string
	name, uniqueKey, uniqueUntil, scopes, enqueueScopes, edges, failed []pgtype.Text
	reason, lastError, tags                                            []pgtype.Text
	progress, extra, body                                              [][]byte
}

func columnsOf(some []*newRecord) *columns {
	c := &columns{}
	for _, n := range some {
		c.add(n, -1, n.UniqueKey != "")
	}
	return c
}

// add adds a record. wanted is its place; if it is negative, the place follows from its time.
func (c *columns) add(n *newRecord, wanted int16, uniqueHeld bool) {
	c.queue, c.line = append(c.queue, n.queue), append(c.line, max(n.line, -n.line))
	c.priority, c.maxTime = append(c.priority, int64(n.Priority)), append(c.maxTime, n.MaxTime)
	c.count, c.errorCount = append(c.count, int64(n.Count)), append(c.errorCount, int64(n.ErrorCount))
	c.version = append(c.version, int64(n.Version))
	c.created, c.waitUntil = append(c.created, pgtype.Int8(n.Created)), append(c.waitUntil, pgtype.Int8(n.WaitUntil))
	c.dispatchBy, c.modTime = append(c.dispatchBy, pgtype.Int8(n.DispatchBy)), append(c.modTime, pgtype.Int8(n.ModTime))
	c.started, c.ended = append(c.started, pgtype.Int8(n.Started)), append(c.ended, pgtype.Int8(n.Ended))
	c.forgetAt, c.attempt = append(c.forgetAt, pgtype.Int8(n.ForgetAt)), append(c.attempt, pgtype.Int8(n.Attempt))
	c.format = append(c.format, int16(n.Format))             //nolint:gosec // One of a few.
	c.dependency = append(c.dependency, int16(n.Dependency)) //nolint:gosec // The same.
	c.wanted = append(c.wanted, wanted)
	c.open, c.dependents = append(c.open, n.Open), append(c.dependents, n.Dependents)
	c.uniqueHeld = append(c.uniqueHeld, uniqueHeld)
	c.owner, c.id, c.jobType = append(c.owner, storable(n.Owner)), append(c.id, n.ID), append(c.jobType, storable(n.Type))
	_, isAttempt := idOfAttempt(n.queueName, n.Name)
	c.name = append(c.name, pgtype.Text{String: n.Name, Valid: n.Attempt.Valid || isAttempt})
	c.uniqueKey, c.uniqueUntil = append(c.uniqueKey, nullable(n.UniqueKey)), append(c.uniqueUntil, nullable(n.UniqueUntil))
	c.scopes, c.enqueueScopes = append(c.scopes, column(n.Scopes)), append(c.enqueueScopes, column(n.EnqueueScopes))
	c.edges, c.failed = append(c.edges, column(n.Edges)), append(c.failed, column(n.Failed))
	c.tags = append(c.tags, column(n.Tags))
	c.reason, c.lastError = append(c.reason, nullable(n.Reason)), append(c.lastError, nullable(n.LastError))
	c.progress, c.extra, c.body = append(c.progress, blob(n.Progress)), append(c.extra, blob(n.Extra)), append(c.body, n.Body)
}

// args returns the arguments of newJobs. valuesOf returns those of newJob.
func (c *columns) args() []any {
	return []any{
		c.queue, c.priority, c.created, c.waitUntil, c.dispatchBy, c.maxTime, c.modTime, c.started, c.ended, c.forgetAt, c.count, c.errorCount,
		c.version, c.attempt, c.format, c.dependency, c.open, c.dependents, c.uniqueHeld, c.owner, c.name, c.uniqueKey, c.uniqueUntil, c.scopes,
		c.enqueueScopes, c.edges, c.failed, c.reason, c.lastError, c.progress, c.extra, c.id, c.jobType, c.body, c.tags, c.line, c.wanted,
		time.Now().UnixNano(),
	}
}

// valuesOf returns the arguments of a statement for one row, from those of the same statement for many rows: of each
// array its only value.
func valuesOf(args []any) []any {
	values := make([]any, len(args))
	for i, arg := range args {
		switch array := arg.(type) {
		case []int16:
			values[i] = array[0]
		case []int32:
			values[i] = array[0]
		case []int64:
			values[i] = array[0]
		case []bool:
			values[i] = array[0]
		case []string:
			values[i] = array[0]
		case [][]byte:
			values[i] = array[0]
		case []pgtype.Int8:
			values[i] = array[0]
		case []pgtype.Text:
			values[i] = array[0]
		default:
			values[i] = arg
		}
	}
	return values
}

// insertAll adds records of one queue that are not plain, except refused ones. It reads at once what concerns all of them.
func (c *changes) insertAll(all []*newRecord) error {
	var control driver.Control
	c.ask(readControl, func(r *row) error {
		control = r.control()
		return nil
	}, all[0].queue)
	c.askTaken(all)
	c.askNumbers(len(all))
	var scopes []string
	for _, n := range all {
		scopes = append(scopes, n.AllScopes()...)
	}
	c.askScopes(all[0].queue, scopes, 0)
	if err := c.send(); err != nil {
		return err
	}
	ids, names := map[string]bool{}, map[string]string{}
	for _, n := range all {
		n.Open, n.Failed, n.refusal = false, nil, nil // an earlier try may have set them
		if control.Draining {
			n.refusal = n.drained()
			continue
		}
		if ids[n.ID] {
			n.takenBy = n.ID
		} else if id := names[n.Name]; id != "" {
			n.takenBy = id
		}
		var err error
		if n.refusal, err = c.insert(n); err != nil {
			return err
		}
		if n.refusal == nil {
			ids[n.ID], names[n.Name] = true, n.ID
		}
	}
	return nil
}

// insertPreset adds a record that is running or has ended an attempt. If the record is refused,
// nothing is changed.
func (c *changes) insertPreset(n *newRecord) (refusal, err error) {
	if n.takenBy != "" {
		return n.Duplicate(n.takenBy), nil
	}
	n.UniqueHeld = n.HoldsKey(n.preset)
	if n.UniqueHeld {
		refusal, err = c.checkKey(&n.job)
		if refusal != nil || err != nil {
			return refusal, err
		}
	}
	scopes := n.ScopesIn(n.preset)
	refusal, err = c.checkFree(&n.job, scopes)
	if refusal != nil || err != nil {
		return refusal, err
	}
	err = c.take(&n.job, scopes)
	if err == nil {
		err = c.insertAt(n, n.preset)
	}
	if err != nil {
		return nil, err
	}
	if len(n.Edges) > 0 {
		c.exec(insertEnded, n.queue, n.Seq, n.Edges)
	}
	if n.preset == table.Running {
		c.takeLease(&n.job, n.ModTime, n.leaseTime, n.Started)
	}
	if n.preset.Final() {
		c.exec(logEnding, n.Seq)
	}
	return nil, err
}

// insert adds a record. If the record is refused, nothing is changed.
func (c *changes) insert(n *newRecord) (refusal, err error) {
	if n.preset != 0 {
		return c.insertPreset(n)
	}
	refusal, err = c.admissible(n)
	if refusal != nil || err != nil {
		return refusal, err
	}
	n.UniqueHeld = n.UniqueKey != ""
	err = c.take(&n.job, n.EnqueueScopes)
	if err != nil {
		return nil, err
	}
	err = c.insertAt(n, table.Waiting)
	if err != nil {
		return nil, err
	}
	c.link(&n.job, n.targets)
	if n.Open {
		return nil, err
	}
	return nil, c.wait(&n.job, c.now)
}

// insertion is a statement that inserts records, with the places that they have when it is sent.
type insertion struct{ records []*newRecord }

// has reports whether a record is one of them. i may be nil.
func (i *insertion) has(seq int64) bool {
	return i != nil && slices.ContainsFunc(i.records, func(n *newRecord) bool { return n.Seq == seq })
}

// statement returns the statement and its arguments.
func (i *insertion) statement() (statement, []any) {
	rows := &columns{}
	var seqs []int64
	var keys []pgtype.Text
	for _, n := range i.records {
		rows.add(n, int16(n.Place), n.UniqueHeld)
		seqs, keys = append(seqs, n.Seq), append(keys, nullable(n.waitingFor))
	}
	args := append(rows.args(), seqs, keys)
	if len(i.records) == 1 {
		return insertOne, valuesOf(args)
	}
	return insertMany, args
}

// insertAt queues the insert of the row of a record. If the line of a record is gone, it fails when it is sent (see
// isLineGone).
func (c *changes) insertAt(n *newRecord, p table.Place) error {
	if len(c.numbers) == 0 {
		c.askNumbers(1)
		if err := c.send(); err != nil {
			return fmt.Errorf("adding record %q: %w", n.Name, err)
		}
	}
	n.Seq, c.numbers = c.numbers[0], c.numbers[1:]
	n.Place, n.waitingFor = p, ""
	if c.insertion == nil {
		i := &insertion{}
		c.insertion = i
		c.queued = append(c.queued, queued{complete: func(q *queued) {
			var s statement
			s, q.args = i.statement()
			q.text = c.d.texts[s]
		}})
	}
	c.insertion.records = append(c.insertion.records, n)
	c.written = c.written.and(momentsOf(n))
	c.count(n.queue, none, p)
	return nil
}

// askNumbers queues the query for arrival numbers of new records. It must be sent before the numbers are used.
func (c *changes) askNumbers(n int) {
	c.ask(takeNumbers, func(r *row) error {
		c.numbers = append(c.numbers, r.integer())
		return nil
	}, n)
}

// askTaken queues the query for the jobs that have the names or IDs of records of one queue.
func (c *changes) askTaken(all []*newRecord) {
	var names, ofNames, ids []string
	for _, n := range all {
		n.takenBy = ""
		names, ofNames, ids = append(names, n.Name), append(ofNames, idOfName(n.queueName, n.Name)), append(ids, n.ID)
	}
	c.ask(takenBy, func(r *row) error {
		n := all[r.integer()-1]
		n.takenBy = r.text()
		return nil
	}, all[0].queue, names, ofNames, ids)
}

// admissible returns why a record must be refused; nil if it can be added. What askTaken asks for must be known.
func (c *changes) admissible(n *newRecord) (refusal, err error) {
	if n.takenBy != "" {
		return n.Duplicate(n.takenBy), nil
	}
	n.targets, err = c.findTargets(&n.stored)
	if err != nil {
		return nil, err
	}
	refusal = table.CheckTargets(n.ID, n.targets)
	if refusal != nil {
		return refusal, nil
	}
	refusal, err = c.checkKey(&n.job)
	if refusal != nil || err != nil {
		return refusal, err
	}
	return c.checkFree(&n.job, n.EnqueueScopes)
}
