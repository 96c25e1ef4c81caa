package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// insertAtOnce is the maximum size (see newRecord.size) of the records that are inserted in one
// transaction, unless a single one is larger, so that other callers do not wait long.
const insertAtOnce = 1000

// newRecord is a record that is to be inserted.
type newRecord struct {
	stored
	queueName string
	manager   string
	index     int // in the Insert
	due       table.Instant
	since     table.Instant  // when the wait of a next attempt began
	targets   []table.Target // of its dependencies
	// preset is the place of a record that does not wait to run; 0 otherwise.
	preset     table.Place
	leaseUntil table.Instant // of a running record
	refusal    error
}

// encodeInserted is encodeNew for a record that Insert adds. It refuses scopes and edges that are not UTF-8: lists of
// names are stored as JSON, so such a scope would be freed under another name than it was taken, and a restarted record
// would not wait for such an edge.
func encodeInserted(index int, r *driver.Record) (*newRecord, error) {
	err := checkText(r, "scope", r.RequiredScopes) // enqueue scopes are among them
	if err == nil && r.Dependency != nil {
		err = checkText(r, "dependency edge", r.Dependency.Edges)
	}
	if err != nil {
		return nil, err
	}
	return encodeNew(index, r)
}

// checkText refuses a record with a name that is not UTF-8.
func checkText(r *driver.Record, field string, names []string) error {
	for _, name := range names {
		if !utf8.ValidString(name) {
			return &amboy.InvalidJobError{JobID: r.JobID(), Field: field, Value: name, Rule: "must be UTF-8"}
		}
	}
	return nil
}

// encodeNew encodes a record for insertion.
func encodeNew(index int, r *driver.Record) (*newRecord, error) {
	e, err := table.Encode(r)
	if err != nil {
		return nil, err
	}
	n := &newRecord{index: index, stored: stored{job: job{Job: e.Job}, Content: e.Content}, queueName: r.Group, manager: managerOf(r)}
	switch state := driver.InsertedState(r); state {
	case amboy.StatePending:
	case amboy.StateRunning:
		n.preset = table.Running
		if !n.ModTime.Valid {
			n.ModTime = table.InstantOf(time.Now())
		}
		// Only the difference between the two times matters.
		n.leaseUntil = table.InstantOf(table.TimeOf(n.ModTime).Add(r.LeaseTime))
	default:
		n.preset = table.FinalPlace(state)
	}
	return n, nil
}

// encodeNext encodes the next attempt of a job.
func encodeNext(r *driver.Record) (*newRecord, error) {
	n, err := encodeNew(0, r)
	if err == nil && n.WaitUntil.Valid {
		n.since = n.Created
	}
	return n, err
}

// size is how many small records a record costs as much as.
func (n *newRecord) size() int { return 1 + (len(n.Body)+len(n.Extra))/recordBytes }

// firstPart returns the first records that are inserted in one transaction.
func firstPart(all []*newRecord) []*newRecord {
	size := 0
	for i, n := range all {
		size += n.size()
		if i > 0 && size > insertAtOnce {
			return all[:i]
		}
	}
	return all
}

// Insert implements driver.Driver. If ctx carries a transaction (see WithTx), Insert writes
// in it. Otherwise it writes transactions of at most 1,000 records or some 4 MiB. If a transaction
// fails, its records and all after them get the error.
func (d *Driver) Insert(ctx context.Context, records []*driver.Record) ([]error, error) {
	tx, err := transactionOf(ctx)
	if err != nil {
		return nil, fmt.Errorf("inserting %d records in the caller's transaction: %w", len(records), err)
	}
	sorted, errs := table.EncodeSorted(records, encodeInserted)
	insert := d.insertSome
	if tx != nil {
		insert = func(ctx context.Context, some []*newRecord) error { return d.insertIn(ctx, tx, some) }
	}
	for left := sorted; len(left) > 0; {
		some := firstPart(left)
		err = insert(ctx, some)
		if err == nil {
			for _, n := range some {
				errs[n.index] = n.refusal
			}
			left = left[len(some):]
			continue
		}
		err = fmt.Errorf("inserting %d records: %w", len(some), err)
		if len(left) == len(sorted) {
			return nil, err
		}
		for _, n := range left {
			errs[n.index] = err
		}
		break
	}
	return errs, nil
}

func (d *Driver) insertSome(ctx context.Context, some []*newRecord) error {
	news := driver.InQueuesOf(some, func(n *newRecord) string { return n.queueName })
	size := 0
	for _, n := range some {
		size += n.size()
	}
	return d.writer.write(ctx, &change{news: news, size: size, run: func(c *changes) error {
		d.mayHaveMore.Store(true)
		return c.insertAll(some)
	}})
}

// insertAll adds records, except refused ones.
func (c *changes) insertAll(all []*newRecord) error {
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].queueName == all[0].queueName {
			n++
		}
		if err := c.insertIn(all[:n]); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

// insertIn adds records of one queue.
func (c *changes) insertIn(all []*newRecord) error {
	queue, err := c.ensureQueue(all[0].queueName)
	if err != nil {
		return err
	}
	control, err := c.control(queue)
	if err != nil {
		return err
	}
	notPlain := true
	if slices.ContainsFunc(all, (*newRecord).isPlain) {
		notPlain, err = c.one(anyAttempts, func(*row) {}, queue)
		if err != nil {
			return err
		}
	}
	now := time.Now().UnixNano()
	plain := make([]*newRecord, 0, plainRows)
	for _, n := range all {
		n.queue, n.Open, n.Failed, n.refusal = queue, false, nil, nil // an earlier try may have set them
		switch {
		case control.Draining:
			n.refusal = fmt.Errorf("job %q: queue %q: %w", n.ID, n.queueName, amboy.ErrQueueDraining)
			continue
		case !notPlain && n.isPlain():
			plain = append(plain, n)
			if len(plain) == plainRows {
				err = c.insertPlain(plain, now)
				plain = plain[:0]
			}
		default:
			err = c.insertPlain(plain, now) // n may depend on them
			plain = plain[:0]
			if err == nil {
				notPlain = notPlain || n.Attempt.Valid
				n.refusal, err = c.insert(n, now)
			}
		}
		if err != nil {
			return err
		}
	}
	return c.insertPlain(plain, now)
}

// isPlain reports whether a record uses only the columns of insertPlain. Most records do.
func (n *newRecord) isPlain() bool {
	return n.preset == 0 && !n.Attempt.Valid && len(n.Scopes) == 0 && len(n.EnqueueScopes) == 0 && len(n.Edges) == 0 && n.UniqueKey == "" &&
		len(n.Tags) == 0 && n.Extra == nil && n.Progress == nil && n.Owner == "" && n.Count == 0 && !n.ModTime.Valid &&
		!n.Started.Valid && !n.Ended.Valid && !n.ForgetAt.Valid && n.ErrorCount == 0 && n.Reason == ""
}

// insertPlain adds plain records, plainRows of them in one statement.
func (c *changes) insertPlain(all []*newRecord, now int64) error {
	for _, n := range all {
		n.settle(n.FirstPlace(now))
	}
	if len(all) == plainRows {
		_, err := c.exec(insertPlainRows, plainArgs(all)...)
		if err == nil {
			c.count(all[0].queue).add(all)
			return nil
		}
		if !isTaken(err) {
			return fmt.Errorf("adding records: %w", err)
		}
		// One of them exists already, and none was added.
	}
	for i, n := range all {
		_, err := c.exec(insertPlain, plainArgs(all[i:i+1])...)
		switch {
		case err == nil:
			c.count(n.queue).add(all[i : i+1])
		case isTaken(err):
			n.refusal, err = c.checkTaken(n)
			if err != nil {
				return fmt.Errorf("finding the job with the ID of record %q: %w", n.Name, err)
			}
		default:
			return fmt.Errorf("adding record %q: %w", n.Name, err)
		}
	}
	return nil
}

func (n *counts) add(all []*newRecord) {
	for _, added := range all {
		n.places[added.Place]++
	}
}

func plainArgs(all []*newRecord) []any {
	args := make([]any, 0, 16*len(all))
	for _, n := range all {
		args = append(args, n.queue, n.Place, n.Priority, n.Name, n.ID, n.Created, n.WaitUntil, n.DispatchBy, n.due,
			n.DispatchBy, n.MaxTime, n.Type, n.Version, n.Format, n.Dependency, n.Body)
	}
	return args
}

// settle sets the place of a record that is to be added.
func (n *newRecord) settle(p table.Place) {
	n.Place, n.due = p, table.Instant{}
	if p == table.Scheduled {
		n.due = n.WaitUntil
	}
}

// insertPreset adds a record that is running or has ended an attempt. If the record is
// refused, nothing is changed.
func (c *changes) insertPreset(n *newRecord) (refusal, err error) {
	refusal, err = c.checkTaken(n)
	if refusal != nil || err != nil {
		return refusal, err
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
	if err == nil && len(n.Edges) > 0 {
		_, err = c.exec(insertEnded, n.queue, n.Seq, n.Edges)
	}
	if err == nil && n.preset == table.Running {
		_, err = c.exec(takeLease, n.Owner, n.Count, n.ModTime, n.leaseUntil, n.Started, n.Seq)
	}
	if n.preset.Final() {
		c.count(n.queue).ended++
	}
	return nil, err
}

// insert adds a record. If the record is refused, nothing is changed.
func (c *changes) insert(n *newRecord, now int64) (refusal, err error) {
	switch {
	case n.preset != 0:
		return c.insertPreset(n)
	case n.isSimple():
		return c.insertSimple(n, now)
	}
	refusal, err = c.admissible(n)
	if refusal != nil || err != nil {
		return refusal, err
	}
	n.UniqueHeld = n.UniqueKey != ""
	if len(n.Scopes) == 0 && len(n.EnqueueScopes) == 0 && len(n.Edges) == 0 {
		return nil, c.insertAt(n, n.FirstPlace(now))
	}
	err = c.take(&n.job, n.EnqueueScopes)
	if err != nil {
		return nil, err
	}
	err = c.insertAt(n, table.Waiting)
	if err != nil {
		return nil, err
	}
	err = c.link(&n.job, n.targets)
	if err != nil || n.Open {
		return nil, err
	}
	return nil, c.wait(&n.job, now)
}

// insertSimple adds a record that needs only its row, with fewer statements than insert.
func (c *changes) insertSimple(n *newRecord, now int64) (refusal, err error) {
	plainName := n.ID
	if n.queueName != "" {
		plainName = n.queueName + "." + n.ID
	}
	taken, err := c.one(idTaken, func(*row) {}, n.queue, n.ID, plainName)
	if err == nil && !taken {
		err = c.insertAt(n, n.FirstPlace(now))
	}
	if err == nil && !taken {
		return nil, nil
	}
	if err == nil || isTaken(err) {
		refusal, err = c.checkTaken(n)
		if err == nil && refusal == nil {
			err = errors.New("its ID is taken, but no job has it")
		}
	}
	if err != nil {
		err = fmt.Errorf("adding record %q: %w", n.Name, err)
	}
	return refusal, err
}

// insertAt adds the row of a record.
func (c *changes) insertAt(n *newRecord, p table.Place) error {
	n.settle(p)
	var err error
	n.Seq, err = c.insertRow(insertJob, n.rowArgs()...)
	if err != nil {
		return fmt.Errorf("adding record %q: %w", n.Name, err)
	}
	return c.added(n)
}

// rowArgs returns the arguments of insertJob for a record whose place is set.
func (n *newRecord) rowArgs() []any {
	expires := n.DispatchBy
	if n.Place >= table.Parked {
		expires = table.Instant{}
	}
	return []any{
		n.queue, n.Place, n.Priority, n.Name, n.ID, n.Owner, n.Count, n.ModTime, n.due, expires, n.ForgetAt,
		n.Created, n.Started, n.Ended, n.WaitUntil, n.DispatchBy, n.MaxTime, n.ErrorCount, n.Type, n.Version, n.Format,
		n.Dependency, n.Attempt, n.Open, n.Dependents, n.UniqueHeld, nullable(n.UniqueKey), nullable(n.UniqueUntil), n.Scopes,
		n.EnqueueScopes, n.Edges, n.Failed, n.Tags, nullable(n.Reason), nullable(n.LastError), blob(n.Progress), blob(n.Extra), n.Body, n.manager, n.since,
	}
}

// added counts a record whose row was added, and adds its tags.
func (c *changes) added(n *newRecord) error {
	c.count(n.queue).places[n.Place]++
	if len(n.Tags) == 0 {
		return nil
	}
	if _, err := c.exec(insertTags, n.queue, n.Seq, n.Tags); err != nil {
		return fmt.Errorf("adding the tags of record %q: %w", n.Name, err)
	}
	return nil
}

// checkTaken refuses a record whose name or ID exists.
func (c *changes) checkTaken(n *newRecord) (refusal, err error) {
	taken, err := c.named(n.queue, n.Name)
	if err == nil && taken == nil {
		taken, err = c.latest(n.queue, n.ID)
	}
	edgesLeft := false
	if err == nil && taken == nil {
		edgesLeft, err = c.anyEdgesLeft(n.queue, n.ID)
	}
	switch {
	case err != nil:
		return nil, err
	case taken != nil:
		return n.Duplicate(taken.ID), nil
	case edgesLeft:
		return n.Duplicate(""), nil
	default:
		return nil, nil
	}
}

// admissible returns why a record must be refused; nil if it can be added.
func (c *changes) admissible(n *newRecord) (refusal, err error) {
	refusal, err = c.checkTaken(n)
	if refusal != nil || err != nil {
		return refusal, err
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
