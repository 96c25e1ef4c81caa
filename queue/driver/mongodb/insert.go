package mongodb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/nameset"
)

// newDocument is a document to insert.
type newDocument struct {
	*document
	index   int // in the Insert
	step    int // in which it is stored, after its dependencies
	refusal error
	// clash is why a unique index refused the document; nil if none did.
	clash  *refusal
	stored bool
}

// batch is an Insert in progress.
type batch struct {
	*Driver
	now  time.Time
	docs []*newDocument
	// held counts, by key, the scopes that documents hold, or that the first waiters
	// for them in the batch will hold.
	held map[key]int
	// tx is the caller's transaction, or nil.
	tx mongo.Session
}

// Insert implements driver.Driver. If ctx carries a session with a transaction (see
// mongo.NewSessionContext), Insert writes in it. An error of the store then has ended the
// transaction.
func (d *Driver) Insert(ctx context.Context, records []*driver.Record) ([]error, error) {
	leave, err := d.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if _, _, err = driver.TransactionOf[transaction](ctx); err != nil {
		return nil, fmt.Errorf("inserting %d records in the caller's transaction: %w", len(records), err)
	}
	b := &batch{Driver: d, now: time.Now(), held: map[key]int{}, tx: transactionOf(ctx)}
	errs := b.add(records)
	ctx = plain(ctx)
	if err = b.lease(ctx); err != nil {
		return nil, fmt.Errorf("inserting %d records: %w", len(records), err)
	}
	pass, err := b.passBarriers(ctx)
	defer pass()
	if err == nil {
		err = b.insert(ctx)
	}
	if errors.Is(err, mongo.ErrWrongClient) {
		err = fmt.Errorf("%w: it must be one of the client of the queue: %w", driver.ErrForeignTransaction, err)
	}
	if err != nil {
		err = fmt.Errorf("inserting %d records: %w", len(records), err)
		if !slices.ContainsFunc(b.docs, func(n *newDocument) bool { return n.stored }) {
			return nil, err
		}
	}
	for _, n := range b.docs {
		errs[n.index] = n.refusal
		if !n.stored && n.refusal == nil {
			errs[n.index] = err
		}
	}
	return errs, nil
}

// add makes documents from records, in the order in which they are to be stored. Invalid
// records get an error.
func (b *batch) add(records []*driver.Record) []error {
	errs := make([]error, len(records))
	all := make([]*newDocument, 0, len(records))
	for i, r := range records {
		if r.Group != "" && !b.opts.Grouped {
			errs[i] = &amboy.InvalidJobError{JobID: r.JobID(), Field: "group", Value: r.Group, Rule: "must be empty, because the store has a single queue"}
			continue
		}
		all = append(all, &newDocument{document: b.newDocument(r), index: i})
	}
	b.docs = sortByEdges(all, errs)
	order := b.orders.next(b.now, len(b.docs))
	for i, n := range b.docs {
		n.Order = order + int64(i)
	}
	return errs
}

func (b *batch) newDocument(r *driver.Record) *document {
	doc := &document{Record: *r, id: r.Name, JobID: r.JobID(), UniqueLock: r.UniqueKey, Rev: b.revs.next()}
	if b.tx != nil {
		// All processes, including this one, must be notified when the transaction is
		// committed.
		doc.Rev = b.revs.nextForeign()
	}
	doc.Scopes = nameset.Without(r.EnqueueScopes, nil)
	switch driver.InsertedState(r) {
	case amboy.StatePending, amboy.StateRetrying:
	case amboy.StateRunning:
		doc.takeScopes(doc.ownSlots())
	default:
		doc.Scopes = nil
		if !doc.keepsKey() {
			doc.UniqueLock = ""
		}
	}
	if !doc.waits() && !doc.final() && doc.UniqueUntil == amboy.UniqueUntilStarted {
		doc.UniqueLock = ""
	}
	return doc
}

// lease sets the ends of the leases of records that run already, by the server's clock.
func (b *batch) lease(ctx context.Context) error {
	var now time.Time
	for _, n := range b.docs {
		if !n.runs() {
			continue
		}
		if now.IsZero() {
			var err error
			if now, err = b.serverTime(ctx); err != nil {
				return err
			}
		}
		n.LeaseUntil = stored(now.Add(n.LeaseTime))
	}
	return nil
}

// edges returns the edges of the document's dependency, or none once it has started.
func (doc *document) edges() []string {
	if !doc.waits() {
		return nil
	}
	return doc.allEdges()
}

// allEdges returns the edges of the document's dependency.
func (doc *document) allEdges() []string {
	if doc.Dependency == nil {
		return nil
	}
	return doc.Dependency.Edges
}

// insert stores the documents, dependencies before their dependents.
func (b *batch) insert(ctx context.Context) error {
	for rest := b.docs; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].step == rest[0].step {
			n++
		}
		if err := b.insertStep(ctx, left(rest[:n])); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// left returns the documents that are neither stored nor refused.
func left(docs []*newDocument) []*newDocument {
	return slices.DeleteFunc(slices.Clone(docs), func(n *newDocument) bool { return n.stored || n.refusal != nil })
}

// passBarriers refuses the documents of draining queues, and holds up drains of the other
// queues until pass is called.
func (b *batch) passBarriers(ctx context.Context) (pass func(), err error) {
	var passed []func()
	pass = func() {
		for _, leave := range passed {
			leave()
		}
	}
	refusals := map[string]error{}
	for _, n := range b.docs {
		refusal, seen := refusals[n.Group]
		if !seen {
			leave, err := b.barrier.enter(ctx, n.Group)
			if err != nil && !errors.Is(err, amboy.ErrQueueDraining) {
				return pass, err
			}
			if err == nil {
				passed = append(passed, leave)
			}
			refusal = err
			refusals[n.Group] = err
		}
		if refusal != nil {
			n.refusal = fmt.Errorf("job %q: %w", n.JobID, refusal)
		}
	}
	return pass, nil
}

func (b *batch) insertStep(ctx context.Context, docs []*newDocument) error {
	err := b.resolve(ctx, docs)
	if err != nil {
		return err
	}
	docs = left(docs)
	err = b.place(ctx, docs)
	if err != nil {
		return err
	}
	if b.tx != nil {
		return b.storeInTransaction(ctx, docs)
	}
	err = b.store(ctx, docs)
	b.followUp(ctx, docs)
	if errors.Is(err, driver.ErrOutcomeUnknown) {
		b.sweeper.watch() // what follows from those that are stored all the same is left undone
	}
	return err
}

func (b *batch) enterLine(n *newDocument, targets map[key]target) error {
	if !n.waits() {
		return nil
	}
	for _, edge := range n.edges() {
		if _, there := targets[key{n.Group, edge}]; !there {
			return &amboy.InvalidJobError{
				JobID: n.JobID,
				Field: "dependency edge",
				Value: edge,
				Rule:  "must name a job that is in the queue, or in the same PutMany",
			}
		}
	}
	n.link(targets, b.now)
	return nil
}

// followUp does what follows from storing documents.
func (b *batch) followUp(ctx context.Context, docs []*newDocument) {
	scopes := scopeSet{}
	open := jobSet{}
	news := driver.Change{}
	for _, n := range docs {
		if !n.stored {
			continue
		}
		news = news.With(driver.In(n.Group))
		scopes.touch(nil, n.document)
		open.add(n.Group, n.Line.Edges...)
	}
	b.followEdges(ctx, open)
	b.arrangeNow(ctx, scopes, news.MayClaim, news)
}

// followEdges is called after documents were stored that wait for jobs, which may have ended since
// they were read.
func (d *Driver) followEdges(ctx context.Context, open jobSet) {
	for queue, ids := range open {
		if err := d.removeEndedEdges(ctx, queue, ids); err != nil {
			d.leaveToSweep(ctx, "checking whether the dependencies of jobs have ended meanwhile", err)
		}
	}
}

// removeEndedEdges updates the dependents of the jobs that have ended or are gone. They may
// have ended before the mark that they have dependents was stored.
func (d *Driver) removeEndedEdges(ctx context.Context, queue string, ids map[string]bool) error {
	succeeded, err := d.outcomes(ctx, queue, slices.Collect(maps.Keys(ids)))
	if err != nil {
		return err
	}
	return d.endEdges(ctx, queue, slices.Collect(maps.Keys(succeeded)))
}
