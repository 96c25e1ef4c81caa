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
	"github.com/mongodb/amboy/registry"
)

// document is a stored record, with what else this driver keeps of it. The
// fields of the record are those that the former library knows; it ignores the
// others. A copy shares what slices and pointers refer to, so that these are
// replaced, and never changed.
type document struct {
	driver.Record `bson:",inline"`

	// Line is where it waits to run.
	Line line `bson:"line,omitempty"`
	// Order is when it arrived, in microseconds since 1970 or a little later, so
	// that each has its own.
	Order int64 `bson:"order,omitempty"`
	// JobID is the job's ID, which the latest attempt has alone.
	JobID string `bson:"job_id,omitempty"`
	// UniqueLock is the unique key, while the job has it.
	UniqueLock string `bson:"unique_lock,omitempty"`
	// LeaseUntil is when the lease ends, if it is later than the modification time.
	// Else the lock is one of the legacy library. The server sets both, by its clock;
	// of one that was claimed here they are not known, and somewhere near.
	LeaseUntil time.Time `bson:"lease_until,omitempty"`
	// Rev is another one after each change that this library makes, but for
	// Extend and SetProgress.
	Rev int64 `bson:"rev,omitempty"`
	// Dependents is true where the edges of others name the job.
	Dependents bool `bson:"dependents,omitempty"`
	// Settle is true of one that ended, where those that depend on it may not
	// have been told.
	Settle bool `bson:"settle,omitempty"`
	// Handover is what one has that has not taken the place of the attempt before.
	Handover *handover `bson:"handover,omitempty"`

	id         string          // the _id, which is the Name unless that is another queue's
	guard      bson.D          // what a change of it requires to be as it was read
	leaseGuard bson.D          // what one requires, besides, that must not come after an Extend
	malformed  error           // why it can't be read
	replaced   map[string]bool // the fields that are written as a whole, as nothing can be written into them
	complete   bool            // it was read with its body
	body       bodyHash
	scopes     []string // those that the body names, of a document of the former library
}

// bodyHash tells whether a body is the stored one, of a document that was read
// without it, or whose body was dropped. The zero value tells of no body that it
// is.
type bodyHash struct {
	sum   uint64
	known bool
}

var bodySeed = maphash.MakeSeed()

func hashOf(b registry.Body) bodyHash {
	return bodyHash{sum: maphash.Bytes(bodySeed, b.Raw()), known: !b.IsZero()}
}

// decode reads a document. Of one that can't be read it has what can be, and no
// type and body, so that whoever claims it finds that it can't be run.
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
		doc.scopes = formerScopes(body)
	}
	doc.id = doc.Name
	doc.Name = nameOf(doc.id, doc.Group)
	doc.guard = guardOf(raw, guarded...)
	doc.leaseGuard = guardOf(raw, "status.mod_ts", "lease_until")
	return doc
}

// notDocuments are the fields that should be documents, and are something else.
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

// guarded are the fields that a change requires to be as they were read. The
// status is among them because the former library does not know of the others.
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

// reguard makes the guard that of a document that was written as it is.
func (doc *document) reguard() {
	doc.guard = bson.D{
		{Key: "rev", Value: doc.Rev},
		{Key: "status.mod_count", Value: doc.Status.ModificationCount},
		{Key: "status.completed", Value: doc.Status.Completed},
		{Key: "status.in_prog", Value: doc.Status.InProgress},
		{Key: "status.owner", Value: doc.Status.Owner},
	}
}

// withoutBody is a copy of a document that was written, which still tells whether
// a body is the stored one.
func (doc *document) withoutBody() *document {
	kept := *doc
	if !doc.Job.IsZero() {
		kept.body = hashOf(doc.Job)
	}
	kept.Job, kept.complete = registry.Body{}, false
	return &kept
}

// aliasOf is the _id of a record whose name another queue's record has. As the name
// begins with the name of the queue, no job has an ID that makes it.
func aliasOf(queue, name string) string { return queue + "\x00" + name }

// nameOf is the name of the record of a queue that has that _id.
func nameOf(id, queue string) string {
	if rest, isAlias := strings.CutPrefix(id, queue+"\x00"); isAlias && (queue == "" || strings.HasPrefix(rest, queue+".")) {
		return rest
	}
	return id
}

// lease is the one that the document shows.
func (doc *document) lease() driver.Lease { return driver.LeaseOf(&doc.Record) }

// jobID is the job's ID, also of an attempt that was replaced.
func (doc *document) jobID() string {
	if doc.JobID != "" {
		return doc.JobID
	}
	return doc.Record.JobID()
}

// runs is true of a document whose attempt runs.
func (doc *document) runs() bool { return doc.Status.InProgress && !doc.Status.Completed }

// waits is true of one that has not started.
func (doc *document) waits() bool { return !doc.Status.InProgress && !doc.Status.Completed }

// retries is true of one that awaits its retry.
func (doc *document) retries() bool { return doc.Status.Completed && doc.RetryInfo.ShouldRetry() }

// final is true of one that ended for good.
func (doc *document) final() bool { return doc.Status.Completed && !doc.RetryInfo.ShouldRetry() }

// leaseEnds is when the lease ends of a document that runs.
func (doc *document) leaseEnds(lockTimeout time.Duration) time.Time {
	if doc.LeaseUntil.After(doc.Status.ModificationTime) {
		return doc.LeaseUntil
	}
	return doc.Status.ModificationTime.Add(lockTimeout)
}

// record is the record as its readers see it: its status tells what it waits for.
func (doc *document) record() *driver.Record {
	r := doc.Record
	if doc.waits() && !doc.Line.IsZero() {
		block := schedule.Block{}
		switch doc.Line.In {
		case inScope:
			block.Scope = doc.Line.Scope
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

// encode is the whole document, as an insert has it. In a store of many queues
// the one without a name has its field too, so that filters and indexes are alike
// for all.
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
