package mongotest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tidwall/btree"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy/internal/mongotest/codec"
)

// document is a stored document. It never changes after it was stored.
type document struct {
	fields bson.D
	raw    bson.Raw
	keys   documentKeys // set when it is stored
}

// newDocument encodes the fields of a document.
func newDocument(fields bson.D) (*document, error) {
	raw, err := codec.Encode(fields)
	if err != nil {
		return nil, errorf(codeBadValue, "encoding a document: %s", err)
	}
	return &document{fields: fields, raw: raw}, nil
}

// version is the content of a record from a commit on.
type version struct {
	at  uint64
	doc *document // nil if the record is deleted
}

// record is a document with its versions.
type record struct {
	number   uint64    // in the order of insertion
	versions []version // oldest first
	// owner is the open transaction that wrote the record, and pending is what it wrote.
	owner   *transaction
	pending *document
}

// latest returns the last committed version.
func (r *record) latest() version {
	if len(r.versions) == 0 {
		return version{}
	}
	return r.versions[len(r.versions)-1]
}

// changing reports whether an open transaction has written the record.
func (r *record) changing() bool { return r.owner != nil }

// visible returns the record as a transaction sees it: its own write, or else the version
// committed before it began.
func (r *record) visible(tx *transaction) *document {
	if r.owner == tx {
		return r.pending
	}
	for _, v := range slices.Backward(r.versions) {
		if v.at <= tx.snapshot {
			return v.doc
		}
	}
	return nil
}

// collection holds the records of a namespace.
type collection struct {
	db, name string
	// records are in the order of their insertion.
	records btree.Map[uint64, *record]
	last    uint64   // the number of the last record
	indexes []*index // the first is on _id; none if the collection is not stored
	built   int      // the number of the last index
	// building are the indexes whose builds wait for other members.
	building []*index
	// costs are those of the whole server.
	costs      *costs
	sortMemory int
}

func (c *collection) namespace() string { return c.db + "." + c.name }

// collection returns a collection and creates it if it is missing.
func (s *Server) collection(req *request, name string) (*collection, error) {
	namespace, err := req.namespace(name)
	if err != nil {
		return nil, err
	}
	c, ok := s.collections[namespace]
	if !ok {
		c = &collection{db: req.generic.DB, name: name, costs: s.costs, sortMemory: s.options.SortMemory}
		c.indexes = []*index{newIDIndex()}
		s.collections[namespace] = c
	}
	return c, nil
}

// existing returns a collection, or an empty one that is not stored and has no
// indexes.
func (s *Server) existing(req *request, name string) (*collection, error) {
	namespace, err := req.namespace(name)
	if err != nil {
		return nil, err
	}
	if c, ok := s.collections[namespace]; ok {
		return c, nil
	}
	return &collection{db: req.generic.DB, name: name, costs: s.costs, sortMemory: s.options.SortMemory}, nil
}

// change is one write of a transaction, as change streams report it.
type change struct {
	kind          string
	collection    *collection
	record        *record
	before, after *document
}

// transaction is a unit of writes that are committed at once. A statement outside a
// multi-document transaction has an implicit transaction, which differs only in its
// lifetime.
type transaction struct {
	// implicit is true for the transaction of a single statement.
	implicit bool
	// many is true while a statement is run that may change many documents, and upserts
	// while an upsert inserts one.
	many, upserts bool

	snapshot uint64
	changes  []change
	began    time.Time
	done     chan struct{} // closed after commit or abort
}

func (s *Server) begin(implicit bool) *transaction {
	tx := &transaction{implicit: implicit, snapshot: s.clock, began: time.Now(), done: make(chan struct{})}
	s.open[tx] = struct{}{}
	return tx
}

// blockedError means that a statement has to wait for a transaction.
type blockedError struct{ by *transaction }

func (*blockedError) Error() string { return "the document is being written by a transaction" }

// contend returns the error of a write to a record that an open transaction has written:
// an operation outside a transaction waits for it, another transaction fails. See
// https://www.mongodb.com/docs/manual/core/transactions-production-consideration/#in-progress-transactions-and-write-conflicts.
func (c *collection) contend(tx, with *transaction) error {
	c.costs.Conflicts++
	if tx.implicit && with != nil {
		return &blockedError{by: with}
	}
	return errorf(codeWriteConflict, "Caused by :: WriteConflict error: this operation conflicted with another operation. Please retry your operation or multi-document transaction.")
}

// write sets the document of a record to after. A nil document deletes the record.
func (c *collection) write(tx *transaction, r *record, after *document, kind string) error {
	if r.owner != nil && r.owner != tx {
		return c.contend(tx, r.owner)
	}
	if r.latest().at > tx.snapshot {
		return c.contend(tx, nil)
	}
	before := r.visible(tx)
	if before != nil && after != nil && bytes.Equal(before.raw, after.raw) {
		return nil
	}
	if after != nil {
		if err := c.reindex(tx, r, before, after); err != nil {
			return err
		}
	}
	c.costs.write(c, tx, before, after, kind)
	overwritten := r.pending
	r.owner, r.pending = tx, after
	c.unindex(r, overwritten)
	tx.changes = append(tx.changes, change{kind: kind, collection: c, record: r, before: before, after: after})
	return nil
}

// reindex adds the keys that a record did not have before, unless an index refuses the
// document.
func (c *collection) reindex(tx *transaction, r *record, before, after *document) error {
	changed := make([]*index, 0, len(c.indexes))
	after.keys = make(documentKeys, 0, len(c.indexes))
	for _, x := range c.indexes {
		if err := after.keys.generate(x, after); err != nil {
			return err
		}
		if before != nil && after.keys.share(x, before.keys.of(x)) {
			continue
		}
		if err := x.check(c, tx, r, after); err != nil {
			return err
		}
		changed = append(changed, x)
	}
	for _, x := range changed {
		x.add(r, after)
	}
	return nil
}

// unindex removes a record from the keys that only a no longer visible document had.
func (c *collection) unindex(r *record, doc *document) {
	if doc == nil {
		return
	}
	for _, x := range c.indexes {
		x.remove(r, doc)
	}
}

// insert adds a record.
func (c *collection) insert(tx *transaction, doc *document) error {
	r := &record{number: c.last + 1}
	if err := c.write(tx, r, doc, "insert"); err != nil {
		return err
	}
	c.last++
	c.records.Set(r.number, r)
	return nil
}

// commit makes the writes of a transaction visible to others.
func (s *Server) commit(tx *transaction) {
	if len(tx.changes) > 0 {
		s.clock++
	}
	for _, ch := range tx.changes {
		if ch.record.owner == tx {
			ch.record.versions = append(ch.record.versions, version{at: s.clock, doc: ch.record.pending})
			ch.record.owner, ch.record.pending = nil, nil
		}
	}
	s.publish(tx)
	s.end(tx)
}

// abort undoes the writes of a transaction.
func (s *Server) abort(tx *transaction) {
	for _, ch := range tx.changes {
		if ch.record.owner == tx {
			undone := ch.record.pending
			ch.record.owner, ch.record.pending = nil, nil
			ch.collection.unindex(ch.record, undone)
		}
	}
	s.end(tx)
}

// end wakes the requests that wait for the transaction, and drops versions that are no
// longer visible.
func (s *Server) end(tx *transaction) {
	delete(s.open, tx)
	close(tx.done)
	oldest := s.oldest()
	for _, ch := range tx.changes {
		s.prune(staleRecord{ch.collection, ch.record}, oldest)
	}
	if tx.snapshot < oldest {
		s.pruneStale()
	}
}

// oldest returns the oldest commit that is still read or may be rolled back to.
func (s *Server) oldest() uint64 {
	oldest := uint64(math.MaxUint64)
	for tx := range s.open {
		oldest = min(oldest, tx.snapshot)
	}
	if s.replication.held {
		oldest = min(oldest, s.replication.majority)
	}
	return oldest
}

// pruneStale drops the versions that were kept for something that has ended.
func (s *Server) pruneStale() {
	stale, oldest := s.stale, s.oldest()
	s.stale = nil
	for _, r := range stale {
		s.prune(r, oldest)
	}
}

// staleRecord is a record with a version that only an old transaction sees.
type staleRecord struct {
	collection *collection
	record     *record
}

// prune drops the versions of a record that are older than what the oldest transaction
// sees, and the record itself if it is deleted. The rest is pruned when that transaction
// has ended.
func (s *Server) prune(stale staleRecord, oldest uint64) {
	c, r := stale.collection, stale.record
	for len(r.versions) > 1 && r.versions[1].at <= oldest {
		doc := r.versions[0].doc
		r.versions = slices.Delete(r.versions, 0, 1)
		c.unindex(r, doc)
	}
	last := r.latest()
	switch {
	case r.changing():
	case last.doc == nil && last.at <= oldest:
		c.records.Delete(r.number)
	case last.doc == nil || len(r.versions) > 1:
		s.stale = append(s.stale, stale)
	}
}

// statement runs one statement of a request, either in the request's transaction or in an
// implicit one, which is repeated after a transaction that it has to wait for. Statements
// done before an error stay done.
func (s *Server) statement(req *request, run func(tx *transaction) error) error {
	if req.tx != nil {
		return run(req.tx)
	}
	for {
		tx := s.begin(true)
		if level, _ := req.generic.ReadConcern.Lookup("level").StringValueOK(); level == "majority" || level == "snapshot" {
			tx.snapshot = s.majority()
		}
		err := run(tx)
		var blocked *blockedError
		if !errors.As(err, &blocked) {
			s.commit(tx)
			return err
		}
		s.abort(tx)
		if err := s.waitFor(req, blocked.by); err != nil {
			return err
		}
	}
}

// waitFor waits until a transaction has ended, and ends it after its lifetime.
func (s *Server) waitFor(req *request, tx *transaction) error {
	lifetime := s.options.TransactionLifetime
	for {
		if err := s.wait(req, tx.done, max(0, lifetime-time.Since(tx.began))); err != nil {
			return err
		}
		if s.topology.secondary {
			return errorf(codeRoleChanged, "operation was interrupted because the primary stepped down")
		}
		if _, running := s.open[tx]; !running {
			return nil
		}
		if time.Since(tx.began) >= lifetime {
			s.abort(tx)
			return nil
		}
	}
}

// expireTransactions ends transactions that exceed their lifetime, because their clients
// may have gone. See
// https://www.mongodb.com/docs/manual/reference/parameters/#mongodb-parameter-param.transactionLifetimeLimitSeconds.
func (s *Server) expireTransactions() {
	for tx := range s.open {
		if !tx.implicit && time.Since(tx.began) >= s.options.TransactionLifetime {
			s.abort(tx)
		}
	}
}

// checkSize refuses documents that exceed the maximum size. See
// https://www.mongodb.com/docs/manual/reference/limits/#mongodb-limit-BSON-Document-Size.
func checkSize(doc *document, code int32, what string) error {
	if len(doc.raw) > maxDocumentSize {
		return errorf(code, "%s", fmt.Sprintf(what, len(doc.raw), maxDocumentSize))
	}
	return nil
}
