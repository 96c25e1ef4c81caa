package mongotest

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"

	"github.com/mongodb/amboy/internal/mongotest/bsonvalue"
)

// changeEvent is one change that was committed. See
// https://www.mongodb.com/docs/manual/reference/change-events/.
type changeEvent struct {
	kind     string
	db, name string
	at       uint64
	wall     time.Time
	key      any
	full     *document // of insert and replace
	changes  bson.D    // of update
	// current returns the current document, for updateLookup.
	current func() *document
}

// maxEvents is the number of events above which the older half is forgotten, as a full
// oplog forgets its oldest entries.
const maxEvents = 200000

// publish adds the events of a committed transaction.
func (s *Server) publish(tx *transaction) {
	if len(tx.changes) == 0 {
		return
	}
	now := time.Now()
	for _, ch := range tx.changes {
		if ch.before == nil && ch.after == nil {
			continue
		}
		e := &changeEvent{kind: ch.kind, db: ch.collection.db, name: ch.collection.name, at: s.clock, wall: now}
		doc := ch.after
		if doc == nil {
			doc = ch.before
		}
		e.key = bsonvalue.Field(doc.fields, "_id")
		switch ch.kind {
		case "insert", "replace":
			e.full = ch.after
		case "update":
			e.changes = difference(ch.before.fields, ch.after.fields)
			e.current = ch.record.committed
		}
		s.events = append(s.events, e)
	}
	if len(s.events) > maxEvents {
		s.forget(maxEvents / 2)
	}
	s.wakeStreams()
}

func (r *record) committed() *document { return r.latest().doc }

// publishDrop adds the event of a dropped collection.
func (s *Server) publishDrop(c *collection) {
	s.clock++
	s.events = append(s.events, &changeEvent{kind: "drop", db: c.db, name: c.name, at: s.clock, wall: time.Now()})
	s.wakeStreams()
}

func (s *Server) wakeStreams() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// difference describes an update by its top-level fields.
func difference(before, after bson.D) bson.D {
	updated, removed := bson.D{}, bson.A{}
	compareFields("", before, after, &updated, &removed)
	return bson.D{
		{Key: "updatedFields", Value: updated},
		{Key: "removedFields", Value: removed},
		{Key: "truncatedArrays", Value: bson.A{}},
	}
}

// compareFields descends into documents that exist on both sides, so that the paths are
// those of the changed fields.
func compareFields(prefix string, before, after bson.D, updated *bson.D, removed *bson.A) {
	for _, e := range after {
		old := bsonvalue.Field(before, e.Key)
		was, wasDoc := old.(bson.D)
		is, isDoc := e.Value.(bson.D)
		switch {
		case wasDoc && isDoc:
			compareFields(prefix+e.Key+".", was, is, updated, removed)
		case !bsonvalue.Equal(old, e.Value) || typeName(old) != typeName(e.Value):
			*updated = append(*updated, bson.E{Key: prefix + e.Key, Value: e.Value})
		}
	}
	for _, e := range before {
		if bsonvalue.Rank(bsonvalue.Field(after, e.Key)) == bsonvalue.RankUndefined {
			*removed = append(*removed, prefix+e.Key)
		}
	}
}

// changeStream is the cursor of a change stream on a collection, or on a database.
type changeStream struct {
	db, name string // name is empty for a database
	position int    // the number of events of the server that it has passed
	lookup   bool
	closed   bool // by an invalidate event
	pipeline []stage
}

func (c *changeStream) namespace() string {
	if c.name == "" {
		return c.db + ".$cmd.aggregate"
	}
	return c.db + "." + c.name
}

func (c *changeStream) token() bson.D { return resumeToken(c.position) }

func resumeToken(position int) bson.D {
	return bson.D{{Key: "_data", Value: hex.EncodeToString(fmt.Appendf(nil, "%016d", position))}}
}

// parseToken reads the position of a token.
func parseToken(token bson.Raw) (int, error) {
	text, _ := token.Lookup("_data").StringValueOK()
	digits, err := hex.DecodeString(text)
	if err != nil || len(digits) != 16 {
		return 0, errorf(codeInvalidResumeToken, "Bad resume token: %s", token)
	}
	position, err := strconv.Atoi(string(digits))
	if err != nil || position < 0 {
		return 0, errorf(codeInvalidResumeToken, "Bad resume token: %s", token)
	}
	return position, nil
}

// watch opens a change stream. See
// https://www.mongodb.com/docs/manual/reference/operator/aggregation/changeStream/.
func (s *Server) watch(req *request, stream *changeStream, list bson.A, batchSize *int64) (bson.D, error) {
	if s.options.Standalone {
		return nil, errorf(codeChangeStreamNeedsRS, "The $changeStream stage is only supported on replica sets")
	}
	if req.multiDocument() {
		return nil, errorf(codeNotInTransaction, "$changeStream cannot be used in a transaction")
	}
	if level, ok := req.generic.ReadConcern.Lookup("level").StringValueOK(); ok && level != "majority" {
		return nil, errorf(codeInvalidOptions, "$changeStream cannot run with a readConcern other than 'majority'. Current readConcern: %s", level)
	}
	raw, err := bson.Marshal(bsonvalue.Field(list[0].(bson.D), "$changeStream"))
	if err != nil {
		return nil, errorf(codeFailedToParse, "the $changeStream stage must be an object")
	}
	var args changeStreamArgs
	err = decodeStrict("$changeStream", raw, &args)
	if err != nil {
		return nil, err
	}
	switch args.FullDocument {
	case "", "default":
	case "updateLookup":
		stream.lookup = true
	default:
		return nil, errorf(codeBadValue, "$changeStream.fullDocument is %q, mongotest knows default and updateLookup", args.FullDocument)
	}
	if stream.position, err = s.startOf(&args); err != nil {
		return nil, err
	}
	if stream.pipeline, err = parsePipeline(list[1:], streamStages); err != nil {
		return nil, err
	}
	return s.firstBatch(stream, batchSize, false)
}

type changeStreamArgs struct {
	FullDocument string               `bson:"fullDocument"`
	ResumeAfter  bson.Raw             `bson:"resumeAfter"`
	StartAfter   bson.Raw             `bson:"startAfter"`
	StartAt      *primitive.Timestamp `bson:"startAtOperationTime"`
}

// startOf returns the position at which a change stream starts.
func (s *Server) startOf(args *changeStreamArgs) (int, error) {
	given := 0
	position := s.forgotten + len(s.events)
	var err error
	for _, token := range []bson.Raw{args.ResumeAfter, args.StartAfter} {
		if len(token) == 0 {
			continue
		}
		given++
		if position, err = parseToken(token); err != nil {
			return 0, err
		}
	}
	if args.StartAt != nil {
		given++
		i := slices.IndexFunc(s.events, func(e *changeEvent) bool { return e.at >= uint64(args.StartAt.I) })
		if i >= 0 {
			position = s.forgotten + i
		}
	}
	if given > 1 {
		return 0, errorf(50865, "Only one of resumeAfter, startAfter and startAtOperationTime may be given")
	}
	if position > s.forgotten+len(s.events) {
		return 0, errorf(codeInvalidResumeToken, "the resume token is later than all events")
	}
	return position, s.checkHistory(position)
}

// checkHistory refuses a position whose events were forgotten.
func (s *Server) checkHistory(position int) error {
	if position >= s.forgotten {
		return nil
	}
	return &commandError{
		code:    codeHistoryLost,
		message: "Resume of change stream was not possible, as the resume point may no longer be in the oplog.",
		labels:  []string{"NonResumableChangeStreamError"},
	}
}

// ForgetHistory drops all events, as an oplog that is too short does: change streams that
// have not read them can't be resumed.
func (s *Server) ForgetHistory() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(len(s.events))
}

// forget drops the oldest events.
func (s *Server) forget(n int) {
	s.forgotten += n
	s.events = slices.Clone(s.events[n:])
}

// next returns the events since the last one. It ends a batch that has reached the
// maximum size of a document.
func (c *changeStream) next(s *Server, size int64) ([]bson.Raw, bool, error) {
	if err := s.checkHistory(c.position); err != nil {
		return nil, false, err
	}
	var batch []bson.Raw
	bytes := 0
	for c.position < s.forgotten+len(s.events) && (size < 0 || int64(len(batch)) < size) && bytes < maxDocumentSize && !c.closed {
		e := s.events[c.position-s.forgotten]
		if e.at > s.majority() {
			break
		}
		c.position++
		if e.db != c.db || c.name != "" && e.name != c.name {
			continue
		}
		docs := []bson.D{e.document(c.position, c.lookup)}
		if e.kind == "drop" && c.name != "" {
			docs = append(docs, e.invalidate(c.position))
			c.closed = true
		}
		docs, err := runPipeline(docs, c.pipeline)
		if err != nil {
			return nil, false, err
		}
		for _, fields := range docs {
			if bsonvalue.Rank(bsonvalue.Field(fields, "_id")) == bsonvalue.RankUndefined {
				return nil, false, errorf(280, "Encountered an event whose _id field, which contains the resume token, was modified by the pipeline.")
			}
			doc, err := newDocument(fields)
			if err != nil {
				return nil, false, err
			}
			batch = append(batch, doc.raw)
			bytes += len(doc.raw)
		}
	}
	return batch, !c.closed, nil
}

// document returns the event as a client receives it.
func (e *changeEvent) document(position int, lookup bool) bson.D {
	doc := bson.D{
		{Key: "_id", Value: resumeToken(position)},
		{Key: "operationType", Value: e.kind},
		{Key: "clusterTime", Value: timestamp(e.at)},
		{Key: "wallTime", Value: primitive.NewDateTimeFromTime(e.wall)},
	}
	switch {
	case e.full != nil:
		doc = append(doc, bson.E{Key: "fullDocument", Value: e.full.fields})
	case e.kind == "update" && lookup:
		var now any
		if current := e.current(); current != nil {
			now = current.fields
		}
		doc = append(doc, bson.E{Key: "fullDocument", Value: now})
	}
	doc = append(doc, bson.E{Key: "ns", Value: bson.D{{Key: "db", Value: e.db}, {Key: "coll", Value: e.name}}})
	if e.kind == "drop" {
		return doc
	}
	doc = append(doc, bson.E{Key: "documentKey", Value: bson.D{{Key: "_id", Value: e.key}}})
	if e.changes != nil {
		doc = append(doc, bson.E{Key: "updateDescription", Value: e.changes})
	}
	return doc
}

// invalidate returns the last event of a change stream on a collection.
func (e *changeEvent) invalidate(position int) bson.D {
	return bson.D{
		{Key: "_id", Value: resumeToken(position)},
		{Key: "operationType", Value: "invalidate"},
		{Key: "clusterTime", Value: timestamp(e.at)},
	}
}
