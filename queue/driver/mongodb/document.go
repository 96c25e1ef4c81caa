package mongodb

import (
	"fmt"
	"hash/maphash"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/x/bsonx/bsoncore"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/schedule"
	"github.com/mongodb/amboy/queue/internal/scope"
	"github.com/mongodb/amboy/registry"
)

// document is a stored record with the additional fields of this driver. The legacy
// library knows only the fields of the record and ignores the others. A copy shares what
// slices and pointers refer to, so these are replaced and never changed in place.
type document struct {
	driver.Record `bson:",inline"`

	// Line is the document's place among those that wait to run.
	Line line `bson:"line,omitempty"`
	// Order is the arrival time in microseconds since 1970, or a little later so that it
	// is unique. It is the stamp of the leases, too.
	Order int64 `bson:"order,omitempty"`
	// JobID is the job's ID. Only the latest attempt has it.
	JobID string `bson:"job_id,omitempty"`
	// UniqueLock is the unique key while the job holds it.
	UniqueLock string `bson:"unique_lock,omitempty"`
	// LeaseUntil is when the lease ends, if it is later than the modification time.
	// Otherwise the lock was taken by the legacy library. The server sets both by its
	// clock; in a document that was claimed here they are only approximate.
	LeaseUntil time.Time `bson:"lease_until,omitempty"`
	// Rev changes with each change that this library makes, except Extend and
	// SetProgress.
	Rev int64 `bson:"rev,omitempty"`
	// Dependents is true if edges of other jobs name the job.
	Dependents bool `bson:"dependents,omitempty"`
	// Settle is true if the document ended and its dependents may not have been notified.
	Settle bool `bson:"settle,omitempty"`
	// Handover is set until the document has taken the place of the attempt before it.
	Handover *handover `bson:"handover,omitempty"`

	id         string          // the _id; it is the Name unless another queue has a record of that name
	guard      bson.D          // the fields, as read, that a change requires to be unchanged
	leaseGuard bson.D          // what a timely change requires in addition, so that it fails after an Extend
	malformed  error           // set if the document can't be decoded
	replaced   map[string]bool // fields that are not documents and are therefore written as a whole
	complete   bool            // the document was read with its body
	otherBody  bool            // a search does not want the body, and only the position was read
	body       bodyHash
	scopes     []string // the scopes in the body of a legacy document
	idIsTaken  bool     // no job with this one's ID can be stored, because the first attempt is there
}

// bodyHash identifies the stored body of a document that was read without it, or whose
// body was dropped. The zero value matches no body.
type bodyHash struct {
	sum   uint64
	known bool
}

var bodySeed = maphash.MakeSeed()

func hashOf(b registry.Body) bodyHash {
	return bodyHash{sum: maphash.Bytes(bodySeed, b.Raw()), known: !b.IsZero()}
}

// decode reads a document. If it can't be decoded, the result contains the fields that
// can be, and no type and body, so that the claiming process finds that it can't be run.
func decode(raw bson.Raw) *document {
	doc := &document{}
	if err := bson.Unmarshal(raw, doc); err != nil {
		doc = decodeParts(raw)
		doc.malformed = fmt.Errorf("reading document %s: %w", raw.Lookup("_id"), err)
		doc.Type, doc.Job = "", registry.Body{}
		doc.replaced = notDocuments(raw)
	}
	doc.body = hashOf(doc.Job)
	_, err := raw.LookupErr("job")
	doc.complete = err == nil
	if body, ok := raw.Lookup("job").DocumentOK(); ok && doc.Order == 0 {
		doc.scopes = legacyScopes(body)
	}
	doc.id = doc.Name
	doc.Name = nameOf(doc.id, doc.Group)
	doc.guard = guardOf(raw, guarded...)
	doc.leaseGuard = guardOf(raw, "status.mod_ts", "lease_until")
	return doc
}

// notDocuments returns the fields that should be documents but are not.
func notDocuments(raw bson.Raw) map[string]bool {
	others := map[string]bool{}
	for name := range nested {
		value, err := raw.LookupErr(name)
		_, isDocument := value.DocumentOK()
		others[name] = err == nil && !isDocument
	}
	return others
}

// decodeParts reads the fields of a document that can be read.
func decodeParts(raw bson.Raw) *document {
	doc := &document{}
	elements, err := raw.Elements()
	if err != nil {
		return doc
	}
	for _, e := range elements {
		if e.Key() == "status" {
			decodeStatus(e.Value(), doc)
			continue
		}
		part := *doc
		if bson.Unmarshal(bsoncore.NewDocumentBuilder().AppendValue(e.Key(), valueOf(e.Value())).Build(), &part) == nil {
			*doc = part
		}
	}
	return doc
}

// decodeStatus reads the fields of a status that can be read.
func decodeStatus(value bson.RawValue, doc *document) {
	status, ok := value.DocumentOK()
	if !ok {
		return
	}
	elements, err := status.Elements()
	if err != nil {
		return
	}
	for _, e := range elements {
		part := doc.Status
		if bson.Unmarshal(bsoncore.NewDocumentBuilder().AppendValue(e.Key(), valueOf(e.Value())).Build(), &part) == nil {
			doc.Status = part
		}
	}
}

func valueOf(v bson.RawValue) bsoncore.Value { return bsoncore.Value{Type: v.Type, Data: v.Value} }

// guarded lists the fields that a change requires to be as they were read. The status is
// included because the legacy library does not change the others.
var guarded = []string{"rev", "status.mod_count", "status.completed", "status.in_prog", "status.owner"}

func guardOf(raw bson.Raw, fields ...string) bson.D {
	guard := make(bson.D, 0, len(fields))
	for _, field := range fields {
		value, err := raw.LookupErr(strings.Split(field, ".")...)
		if err != nil {
			guard = append(guard, bson.E{Key: field, Value: nil})
			continue
		}
		guard = append(guard, bson.E{Key: field, Value: value})
	}
	return guard
}

// reguard sets the guard to the values that were just written.
func (doc *document) reguard() {
	doc.guard = bson.D{
		{Key: "rev", Value: doc.Rev},
		{Key: "status.mod_count", Value: doc.Status.ModificationCount},
		{Key: "status.completed", Value: doc.Status.Completed},
		{Key: "status.in_prog", Value: doc.Status.InProgress},
		{Key: "status.owner", Value: doc.Status.Owner},
	}
}

// withoutBody returns a copy of a written document without its body. The copy can still
// recognize the stored body.
func (doc *document) withoutBody() *document {
	kept := *doc
	if !doc.Job.IsZero() {
		kept.body = hashOf(doc.Job)
	}
	kept.Job, kept.complete = registry.Body{}, false
	return &kept
}

// aliasOf returns the _id of a record whose name is taken by a record of another queue.
// Since the name begins with the name of the queue, no job ID leads to the same _id.
func aliasOf(queue, name string) string { return queue + "\x00" + name }

// nameOf returns the name of the record of a queue with the given _id.
func nameOf(id, queue string) string {
	if rest, isAlias := strings.CutPrefix(id, queue+"\x00"); isAlias && (queue == "" || strings.HasPrefix(rest, queue+".")) {
		return rest
	}
	return id
}

// lease returns the lease that the document shows.
func (doc *document) lease() driver.Lease {
	l := driver.LeaseOf(&doc.Record)
	l.Stamp = doc.Order
	return l
}

// shows reports whether the document shows a lease, or the given absence of one.
func (doc *document) shows(l driver.Lease) bool {
	if doc.Order == 0 {
		l.Stamp = 0 // the legacy library drops the order when it saves a document
	}
	return doc.lease() == l
}

// jobID returns the job's ID, also for an attempt that was replaced.
func (doc *document) jobID() string {
	if doc.JobID != "" {
		return doc.JobID
	}
	return doc.Record.JobID()
}

// runs reports whether the attempt runs.
func (doc *document) runs() bool { return doc.Status.InProgress && !doc.Status.Completed }

// waits reports whether the document has not started.
func (doc *document) waits() bool { return !doc.Status.InProgress && !doc.Status.Completed }

// retries reports whether the document awaits its retry.
func (doc *document) retries() bool { return doc.Status.Completed && doc.RetryInfo.ShouldRetry() }

// final reports whether the document ended for good.
func (doc *document) final() bool { return doc.Status.Completed && !doc.RetryInfo.ShouldRetry() }

// leaseEnds returns when the lease of a running document ends.
func (doc *document) leaseEnds(lockTimeout time.Duration) time.Time {
	if doc.LeaseUntil.After(doc.Status.ModificationTime) {
		return doc.LeaseUntil
	}
	return doc.Status.ModificationTime.Add(lockTimeout)
}

// record returns the record for readers: its status shows what it waits for.
func (doc *document) record() *driver.Record {
	r := doc.Record
	r.Scopes, r.Stamp = doc.heldScopes(), doc.Order
	if doc.waits() && !doc.Line.IsZero() {
		block := schedule.Block{}
		switch doc.Line.In {
		case inScope:
			block.Scope = scope.Of(doc.Line.Scope, doc.RequiredScopes)
		case inEdges:
			block.Open = len(doc.Line.Edges)
			if r.Dependency != nil {
				block.Edges = len(r.Dependency.Edges)
			}
		}
		reason := r.Status.Reason
		schedule.Describe(&r.Status, schedulePlaces[doc.Line.In], block)
		if reason != "" {
			r.Status.Reason = reason
		}
	}
	return &r
}

// encode returns the whole document for an insert. In a store of many queues, the queue
// without a name stores an empty group field, so that filters and indexes are the same
// for all queues.
func (d *Driver) encode(doc *document) (bson.Raw, error) {
	stored := *doc
	stored.Name = doc.id
	raw, err := bson.Marshal(&stored)
	if err != nil {
		return nil, fmt.Errorf("encoding record %q: %w", doc.Name, err)
	}
	if d.opts.Grouped && doc.Group == "" {
		raw = append(bsoncore.AppendStringElement(raw[:len(raw)-1:len(raw)-1], "group", ""), 0)
		bsoncore.UpdateLength(raw, 0, int32(len(raw)))
	}
	return raw, nil
}
