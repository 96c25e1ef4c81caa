package mongodb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/schedule"
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
	doc.Scopes = without(r.EnqueueScopes, nil)
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

// sortByEdges orders documents so that each comes after its dependencies. Documents in a
// cycle are left out and get an error.
func sortByEdges(all []*newDocument, errs []error) []*newDocument {
	if !slices.ContainsFunc(all, func(n *newDocument) bool { return len(n.edges()) > 0 }) {
		return all
	}
	type entry = schedule.Entry[*newDocument]
	queues := map[string][]*entry{}
	for _, n := range all {
		queues[n.Group] = append(queues[n.Group], &entry{Job: n, ID: n.JobID, Edges: n.edges()})
	}
	for name, entries := range queues {
		sorted, cycles := schedule.Sort(entries)
		for e, err := range cycles {
			errs[e.Job.index] = err
		}
		queues[name] = sorted
	}
	// Each queue keeps its positions in the batch; its documents are reordered among
	// them.
	sorted := make([]*newDocument, 0, len(all))
	for _, n := range all {
		if entries := queues[n.Group]; len(entries) > 0 {
			sorted = append(sorted, entries[0].Job)
			queues[n.Group] = entries[1:]
		}
	}
	inSteps(sorted)
	return sorted
}

// inSteps assigns each document the step in which it is stored. Consecutive documents
// share a step if none depends on another one of the step.
func inSteps(sorted []*newDocument) {
	var s steps
	for _, n := range sorted {
		n.step = s.of(n.document, n.edges())
	}
}

// steps assigns documents to steps, in their order.
type steps struct {
	last     int
	together map[key]bool // the jobs of the last step
}

// of returns the step of the next document. It is not that of a document that it has an edge to.
func (s *steps) of(doc *document, edges []string) int {
	if slices.ContainsFunc(edges, func(edge string) bool { return s.together[key{doc.Group, edge}] }) {
		s.last++
		s.together = nil
	}
	if s.together == nil {
		s.together = map[key]bool{}
	}
	s.together[key{doc.Group, doc.jobID()}] = true
	return s.last
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
	if len(b.docs) == 0 {
		return nil
	}
	for step := range b.docs[len(b.docs)-1].step + 1 {
		if err := b.insertStep(ctx, b.of(func(n *newDocument) bool { return n.step == step })); err != nil {
			return err
		}
	}
	return nil
}

// of returns the documents that are neither stored nor refused and satisfy a condition.
func (b *batch) of(condition func(*newDocument) bool) []*newDocument {
	var docs []*newDocument
	for _, n := range b.docs {
		if !n.stored && n.refusal == nil && condition(n) {
			docs = append(docs, n)
		}
	}
	return docs
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
	docs = b.of(func(n *newDocument) bool { return slices.Contains(docs, n) })
	err = b.place(ctx, docs)
	if err != nil {
		return err
	}
	if b.tx != nil {
		return b.storeInTransaction(ctx, docs)
	}
	err = b.store(ctx, docs)
	b.followUp(ctx, docs)
	return err
}

// target is the state of a job that an edge names.
type target struct{ hasEnded, succeeded bool }

// resolve finds the jobs that edges name, marks those that have not ended, and gives the
// documents their places in the line.
func (b *batch) resolve(ctx context.Context, docs []*newDocument) error {
	edges := jobSet{}
	for _, n := range docs {
		edges.add(n.Group, n.edges()...)
	}
	targets, err := b.targetsOf(ctx, edges)
	if err != nil {
		return err
	}
	for _, n := range docs {
		n.refusal = b.enterLine(n, targets)
	}
	return nil
}

// jobSet is a set of job IDs by queue.
type jobSet map[string]map[string]bool

func (s jobSet) add(queue string, ids ...string) {
	if len(ids) > 0 && s[queue] == nil {
		s[queue] = map[string]bool{}
	}
	for _, id := range ids {
		s[queue][id] = true
	}
}

// awaitedBy returns the jobs that documents wait for after they were changed.
func awaitedBy(changes []*change) jobSet {
	awaited := jobSet{}
	for _, c := range changes {
		if c.landed() {
			awaited.add(c.queue, c.after.Line.Edges...)
		}
	}
	return awaited
}

// targetsOf marks the jobs that edges name, and returns their states. Those that do not exist are
// left out.
func (b *batch) targetsOf(ctx context.Context, edges jobSet) (map[key]target, error) {
	targets := map[key]target{}
	for queue, ids := range edges {
		if err := b.markTargets(ctx, queue, ids, targets); err != nil {
			return nil, fmt.Errorf("finding the jobs that edges name: %w", err)
		}
	}
	return targets, nil
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

// link makes a document wait for those of its edges that have not ended, and records those that
// have failed. It does not wait for a job that does not exist.
func (doc *document) link(targets map[key]target, now time.Time) {
	var open, failed []string
	for _, edge := range doc.edges() {
		t, there := targets[key{doc.Group, edge}]
		switch {
		case !there:
		case !t.hasEnded:
			open = append(open, edge)
		case !t.succeeded:
			failed = append(failed, edge)
		}
	}
	doc.fail(failed)
	doc.enter(without(open, nil), now)
}

// markTargets marks existing jobs of a queue as having dependents, so that a process that
// ends one from then on updates them. A job whose attempt is replaced meanwhile has not
// ended; its next attempt is marked then.
func (b *batch) markTargets(ctx context.Context, queue string, ids map[string]bool, targets map[key]target) error {
	for range maxRounds {
		found, err := b.findJobs(b.session(ctx), queue, ids)
		if err != nil {
			return err
		}
		if b.tx != nil {
			// They are not marked: until the transaction ends, no process could renew their
			// leases or end them. The sweep after the commit marks them.
			for id, doc := range found {
				targets[key{queue, id}] = target{doc.final(), doc.succeeded()}
			}
			return nil
		}
		marks := make([]*change, 0, len(found))
		for _, doc := range found {
			marks = append(marks, b.mark(doc))
		}
		err = b.write(ctx, marks)
		if err != nil {
			return err
		}
		ids = map[string]bool{}
		for _, c := range marks {
			id := c.before.jobID()
			switch {
			case errors.Is(c.err, errGone), errors.Is(c.err, errMoved):
				ids[id] = true
			case c.err != nil:
				return fmt.Errorf("marking record %q: %w", c.name, c.err)
			default:
				targets[key{queue, id}] = target{c.after.final(), c.after.succeeded()}
			}
		}
		if len(ids) == 0 {
			return nil
		}
	}
	return errContended
}

// mark is the change that marks the latest attempt of a job.
func (b *batch) mark(latest *document) *change {
	return &change{
		queue:  latest.Group,
		name:   latest.Name,
		before: latest,
		quiet:  true,
		step: func(doc *document) error {
			switch {
			case !doc.final():
				doc.Dependents = true
			case !latest.final():
				return errMoved // it ended or was replaced
			}
			return nil
		},
	}
}

// findJobs finds the latest attempts of jobs, without their bodies.
func (d *Driver) findJobs(ctx context.Context, queue string, ids map[string]bool) (map[string]*document, error) {
	found := make(map[string]*document, len(ids))
	list := make(bson.A, 0, len(ids))
	for id := range ids {
		list = append(list, id)
	}
	filter := d.inQueue(queue, bson.E{Key: "job_id", Value: bson.D{{Key: "$in", Value: list}}})
	err := d.each(ctx, filter, withoutBodies(), func(doc *document) error {
		found[doc.JobID] = doc
		return nil
	})
	if err != nil {
		return nil, err
	}
	for id := range ids {
		if found[id] != nil {
			continue
		}
		doc, err := d.unnamed(ctx, queue, id)
		if err != nil {
			return nil, err
		}
		if doc != nil {
			found[id] = doc
		}
	}
	return found, nil
}

// unnamed finds the latest attempt of a job whose ID no document has, either because the
// legacy library wrote it or because it is being replaced by its next attempt.
func (d *Driver) unnamed(ctx context.Context, queue, id string) (*document, error) {
	doc, err := d.latest(ctx, queue, id)
	if err != nil || doc == nil || doc.Order == 0 || !doc.final() || !doc.RetryInfo.Retryable {
		return doc, err
	}
	next, err := d.first(ctx, d.inQueue(queue,
		bson.E{Key: "retry_info.base_job_id", Value: id},
		bson.E{Key: "line.in", Value: inHandover},
	), nil)
	if err != nil || next != nil {
		return next, err
	}
	return d.latest(ctx, queue, id) // the next attempt may have taken its place since
}

// place makes documents wait whose scopes are held, or are wanted by earlier documents of
// the batch.
func (b *batch) place(ctx context.Context, docs []*newDocument) error {
	scopes := scopeSet{}
	for _, n := range docs {
		b.hold(n.Group, n.Scopes)
		scopes.add(n.Group, n.Line.Wants...)
	}
	for queue, set := range scopes {
		if err := b.findHeld(ctx, queue, set); err != nil {
			return fmt.Errorf("querying held scopes: %w", err)
		}
	}
	inOrder := slices.Clone(docs)
	slices.SortStableFunc(inOrder, func(m, n *newDocument) int {
		if m.before(n.document) {
			return -1
		}
		return 1
	})
	for _, n := range inOrder {
		if n.Line.In == inReady {
			b.placeOne(n)
		}
	}
	return nil
}

func (b *batch) placeOne(n *newDocument) {
	for _, scope := range n.Line.Wants {
		if b.held[key{n.Group, scope}] >= n.limitOf(scope) {
			n.block(scope)
			return
		}
	}
	b.hold(n.Group, n.Line.Wants)
}

// hold counts what a document holds or is about to take.
func (b *batch) hold(queue string, held []string) {
	for _, name := range held {
		b.held[key{queue, keyOf(name)}]++
	}
}

func (b *batch) findHeld(ctx context.Context, queue string, scopes map[string]bool) error {
	filter := b.inQueue(queue, bson.E{Key: "scopes", Value: field("$in", holding(slices.Sorted(maps.Keys(scopes))))})
	return b.each(b.session(ctx), filter, options.Find().SetProjection(bson.D{{Key: "scopes", Value: 1}}), func(doc *document) error {
		b.hold(queue, doc.Scopes)
		return nil
	})
}

// store inserts the documents that are not refused.
func (b *batch) store(ctx context.Context, docs []*newDocument) error {
	p := &placing{batch: b, docs: docs}
	for round := 0; ; round++ {
		if round > 0 {
			if err := pause(ctx, round); err != nil {
				return p.after(err)
			}
		}
		if p.unsure != nil {
			if err := p.findStored(ctx); err != nil {
				return unknown(fmt.Errorf("%w, after %w", err, p.unsure))
			}
		}
		left := p.left()
		if len(left) == 0 {
			b.nameRivals(ctx, docs)
			return nil
		}
		if err := p.send(ctx, left); err != nil {
			return p.after(err)
		}
	}
}

// placing is an insert of documents in progress.
type placing struct {
	*batch
	docs     []*newDocument
	failures int
	// unsure is the error of a command after which it is not known which documents are
	// stored. They may also be stored later.
	unsure error
	// single is true once a command with several documents took too long.
	single bool
	// swept is true once a sweep was requested, because a document has to wait for a
	// transaction, which may be that of a retry of a dead process.
	swept bool
}

// left returns the documents that are neither stored nor refused.
func (p *placing) left() []*newDocument {
	return p.of(func(n *newDocument) bool { return slices.Contains(p.docs, n) })
}

// after returns the error of a call that ends before it is known what is stored.
func (p *placing) after(err error) error {
	if p.unsure != nil && !errors.Is(err, driver.ErrOutcomeUnknown) {
		return unknown(fmt.Errorf("%w, after %w", err, p.unsure))
	}
	return err
}

// send inserts documents, with one command if they fit. A document that has to wait for a
// transaction is left.
func (p *placing) send(ctx context.Context, docs []*newDocument) error {
	raws, docs := p.encodeAll(docs)
	if len(docs) == 0 {
		return nil
	}
	if !p.single && len(docs) > 1 {
		a, err := p.batch.send(ctx, inserting, raws, false, batchLimit)
		if isTimedOut(err) {
			p.single, p.unsure = true, err
			return nil
		}
		return p.sent(ctx, docs, a, err)
	}
	answers, errs := make([]*answer, len(docs)), make([]error, len(docs))
	eachAtOnce(len(docs), func(i int) {
		answers[i], errs[i] = p.batch.send(ctx, inserting, raws[i:i+1], false, singleLimit)
	})
	var failure error
	failures := p.failures
	for i := range docs {
		if isTimedOut(errs[i]) {
			if !p.swept {
				p.swept = true
				p.sweeper.force()
			}
			continue
		}
		p.failures = failures // they are failures of one attempt
		if err := p.sent(ctx, docs[i:i+1], answers[i], errs[i]); err != nil {
			failure = err
		}
	}
	return failure
}

// sent records which documents are stored and which are refused.
func (p *placing) sent(ctx context.Context, docs []*newDocument, a *answer, err error) error {
	if err != nil {
		return p.failed(ctx, err)
	}
	if a.unacknowledged != nil { // what refused some of them may be rolled back
		return p.failed(ctx, a.unacknowledged)
	}
	var clashes, refused []*newDocument
	for _, e := range a.refused {
		n := docs[e.Index]
		r := refusalOf(e)
		if r == nil {
			n.refusal = fmt.Errorf("inserting record %q: %w", n.Name, e)
			continue
		}
		n.refusal, n.clash = r.errorOf(n.document), r
		if refused = append(refused, n); r.index == byName && p.opts.Grouped && n.id == n.Name {
			clashes = append(clashes, n)
		}
	}
	for _, n := range docs {
		n.stored = n.refusal == nil
	}
	if p.unsure != nil && len(refused) > 0 {
		// What refused them may be themselves, stored late by an earlier command.
		err = p.findOwn(ctx, refused)
	}
	if err == nil && len(clashes) > 0 {
		err = p.sendClashes(ctx, clashes)
	}
	return err
}

// failed handles a command without a usable answer.
func (p *placing) failed(ctx context.Context, err error) error {
	p.failures++
	switch {
	case ctx.Err() != nil || p.failures == maxFailures:
	case isTransient(err) || isUnacknowledged(err):
		p.unsure = err
		return nil
	case isConflict(err):
		return nil
	}
	return failed(ctx, err)
}

// sendClashes inserts documents again under another _id if a record of another queue has
// their name.
func (p *placing) sendClashes(ctx context.Context, docs []*newDocument) error {
	names := make(bson.A, len(docs))
	for i, n := range docs {
		names[i] = n.id
	}
	queues := map[string]string{}
	filter := bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: names}}}}
	err := p.each(ctx, filter, options.Find().SetProjection(bson.D{{Key: "group", Value: 1}}), func(doc *document) error {
		queues[doc.id] = doc.Group
		return nil
	})
	if err != nil {
		return err
	}
	var again []*newDocument
	for _, n := range docs {
		if queue, there := queues[n.id]; n.refusal != nil && there && queue != n.Group {
			n.id, n.refusal = aliasOf(n.Group, n.Name), nil
			again = append(again, n)
		}
	}
	return p.send(ctx, again)
}

func (b *batch) encodeAll(docs []*newDocument) (raws []bson.Raw, left []*newDocument) {
	for _, n := range docs {
		raw, err := b.encode(n.document)
		switch {
		case err != nil:
			n.refusal = err
		case len(raw) > maxDocumentSize:
			n.refusal = tooLarge(n.document, len(raw))
		default:
			raws, left = append(raws, raw), append(left, n)
		}
	}
	return raws, left
}

// findStored finds out which of the documents that are left are stored.
func (p *placing) findStored(ctx context.Context) error { return p.findOwn(ctx, p.left()) }

// findOwn finds out which documents are stored, whether other processes have changed them
// since or not, and waits until the majority has them. What was rolled back meanwhile is
// not stored.
func (p *placing) findOwn(ctx context.Context, docs []*newDocument) error {
	ids := bson.A{}
	byID := map[string]*newDocument{}
	for _, n := range docs {
		ids = append(ids, n.id)
		byID[n.id] = n
	}
	for round := range maxRounds {
		if round > 0 {
			if err := pause(ctx, round); err != nil {
				return err
			}
		}
		var found []*document
		filter := bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}
		err := p.each(ctx, filter, options.Find().SetProjection(bson.D{{Key: "order", Value: 1}}), func(doc *document) error {
			if n := byID[doc.id]; n != nil && n.Order == doc.Order {
				doc.guard = field("order", doc.Order)
				found = append(found, doc)
			}
			return nil
		})
		if err != nil || len(found) == 0 {
			return err
		}
		all, err := p.confirmed(ctx, found)
		if err != nil {
			return err
		}
		if !all {
			continue
		}
		for _, doc := range found {
			byID[doc.id].stored, byID[doc.id].refusal = true, nil
		}
		return nil
	}
	return errContended
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
	found, err := d.findJobs(ctx, queue, ids)
	if err != nil {
		return err
	}
	succeeded := map[string]bool{}
	for id := range ids {
		if doc := found[id]; doc == nil || doc.final() {
			succeeded[id] = doc == nil || doc.succeeded()
		}
	}
	return d.endAllEdges(ctx, queue, succeeded)
}

// endAllEdges removes the edges to jobs, which have succeeded or not, from all documents
// that wait for them.
func (d *Driver) endAllEdges(ctx context.Context, queue string, succeeded map[string]bool) error {
	if len(succeeded) == 0 {
		return nil
	}
	for {
		n, err := d.endEdges(ctx, queue, succeeded)
		if err != nil || n < dependentsBatch {
			return err
		}
	}
}
