package mongodb

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
)

// examineBatch is the minimum number of documents that one command reads if the driver must
// examine them to decide whether they are selected.
const examineBatch = 200

// bodiesBatch is examineBatch if the driver must examine the bodies, which select few documents.
const bodiesBatch = 1000

// position is a position in the order of documents, which is by arrival and then by _id.
// Legacy documents, which have no order, come first.
type position struct {
	Order int64  `bson:"o"`
	ID    string `bson:"i"`
	// End is the highest order that existed at the beginning, if documents that arrive
	// later are excluded.
	End int64 `bson:"e,omitempty"`
	// Scans is true once the server has taken too long to find documents (see
	// scan).
	Scans bool `bson:"s,omitempty"`

	begun  bool // after a document, not at the beginning
	newest bool
}

// newPosition returns the position after a cursor.
func newPosition(after driver.Cursor, newest bool) (*position, error) {
	at := &position{newest: newest}
	if after == "" {
		return at, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(string(after))
	if err == nil {
		err = bson.Unmarshal(raw, at)
	}
	if err != nil {
		return nil, fmt.Errorf("invalid cursor: After must be the Next of another page (is %q): %w", after, driver.ErrBadCursor)
	}
	at.begun = true
	return at, nil
}

func (at *position) cursor() (driver.Cursor, error) {
	raw, err := bson.Marshal(at)
	if err != nil {
		return "", fmt.Errorf("encoding a cursor: %w", err)
	}
	return driver.Cursor(base64.RawURLEncoding.EncodeToString(raw)), nil
}

// pass moves the position after a document.
func (at *position) pass(order int64, id string) {
	at.Order, at.ID, at.begun = order, id, true
}

// ahead returns a filter for the documents after the position.
func (at *position) ahead() bson.D {
	var parts []bson.D
	if at.End != 0 {
		parts = append(parts, either(field("order", nil), field("order", field("$lte", at.End))))
	}
	switch {
	case !at.begun:
	case at.newest:
		parts = append(parts, at.before("$lt"))
	default:
		parts = append(parts, at.after("$gt"))
	}
	if len(parts) == 0 {
		return nil
	}
	return all(parts...)
}

// behind returns a filter for the documents up to the position, including the document
// that it is after.
func (at *position) behind() bson.D {
	if at.newest {
		return at.after("$gte")
	}
	return at.before("$lte")
}

// after returns a filter for the documents that arrived later. operator compares the _ids
// of documents with the same order.
func (at *position) after(operator string) bson.D {
	id := field("_id", field(operator, at.ID))
	if at.Order == 0 {
		return either(append(field("order", nil), id...), field("order", exist(true)))
	}
	return all(field("order", field("$gte", at.Order)), either(field("order", field("$ne", at.Order)), id))
}

// before returns a filter for the documents that arrived earlier. operator is as in
// after.
func (at *position) before(operator string) bson.D {
	id := field("_id", field(operator, at.ID))
	if at.Order == 0 {
		return append(field("order", nil), id...)
	}
	notAfter := field("$not", field("$gt", at.Order)) // also matches a missing order, in one range of the index
	return all(field("order", notAfter), either(field("order", field("$ne", at.Order)), id))
}

func (at *position) sort() bson.D {
	if at.newest {
		return bson.D{{Key: "order", Value: -1}, {Key: "_id", Value: -1}}
	}
	return bson.D{{Key: "order", Value: 1}, {Key: "_id", Value: 1}}
}

// Find implements driver.Driver. A record that can't be read is returned without a job.
// If the server takes longer than half a second to find a page, each further page
// examines only 50,000 records.
func (d *Driver) Find(ctx context.Context, q driver.Query, page driver.PageRequest) (driver.Page, error) {
	leave, err := d.enter(ctx)
	if err != nil {
		return driver.Page{}, err
	}
	defer leave()
	ctx = plain(ctx)
	found, err := d.findPage(ctx, q, page)
	if err != nil {
		return driver.Page{}, fmt.Errorf("finding records: %w", err)
	}
	return found, nil
}

func (d *Driver) findPage(ctx context.Context, q driver.Query, page driver.PageRequest) (found driver.Page, err error) {
	err = checkLimit(page.Limit)
	if err != nil {
		return found, err
	}
	at, err := newPosition(page.After, page.Newest)
	if err != nil {
		return found, err
	}
	s, err := d.newSelection(ctx, q, time.Now())
	if err != nil {
		return found, err
	}
	var projection bson.D
	if page.Brief && page.Body == nil {
		projection = withoutContent
	}
	s.bodies.Body = page.Body
	docs, more, err := d.findNext(ctx, s, at, page.Limit, projection)
	if err != nil {
		return found, err
	}
	for _, doc := range docs {
		found.Records = append(found.Records, doc.record())
	}
	if more {
		found.Next, err = at.cursor()
	}
	return found, err
}

// decode reads a document. If its body is not wanted, it reads only the position, because the rest takes
// ten times as long as a search of the body.
func (s *selection) decode(raw bson.Raw) *document {
	if s.bodies.Body == nil {
		return decode(raw)
	}
	id, hasID := raw.Lookup("_id").StringValueOK()
	order, hasOrder := raw.Lookup("order").Int64OK()
	job := raw.Lookup("job")
	var body registry.Body
	err := body.UnmarshalBSONValue(job.Type, job.Value)
	if !hasID || !hasOrder || err != nil || s.bodies.Wants(body) {
		return decode(raw)
	}
	return &document{id: id, Order: order, otherBody: true}
}

// findNext returns up to limit of the next selected documents, and moves the position
// after the last document that it examined. more reports whether there are documents
// after the position.
func (d *Driver) findNext(ctx context.Context, s *selection, at *position, limit int, projection bson.D) (selected []*document, more bool, err error) {
	if s.none {
		return nil, false, nil
	}
	size := limit
	if s.isApproximate() {
		size = max(limit, examineBatch)
	}
	if s.bodies.Body != nil {
		size = max(limit, bodiesBatch)
	}
	docs, end, err := d.read(ctx, s, at, size+1, projection)
	if err != nil {
		return nil, false, err
	}
	if more = len(docs) > size; more {
		docs = docs[:size]
	}
	var replaced map[*document]bool
	if s.query.Latest {
		if replaced, err = d.replacedOf(ctx, docs); err != nil {
			return nil, false, err
		}
	}
	for _, doc := range docs {
		if len(selected) == limit {
			return selected, true, nil
		}
		at.pass(doc.Order, doc.id)
		if !doc.otherBody && !replaced[doc] && s.selects(doc) && s.bodies.Wants(doc.Job) {
			selected = append(selected, doc)
		}
	}
	if !more && end != nil {
		at.pass(end.Order, end.ID)
		more = true
	}
	return selected, more, nil
}

func keysOf[V any](m map[string]V) bson.A {
	keys := make(bson.A, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	return keys
}

// attemptsOf identifies the attempts of a job.
type attemptsOf struct {
	Queue string `bson:"queue"`
	ID    string `bson:"id"`
}

// replacedOf returns the documents that are attempts replaced by a later attempt, or that do not
// replace the one before them yet.
func (d *Driver) replacedOf(ctx context.Context, docs []*document) (map[*document]bool, error) {
	var doubtful []*document
	for _, doc := range docs {
		if doc.JobID == "" && doc.RetryInfo.Retryable {
			doubtful = append(doubtful, doc)
		}
	}
	last, err := d.lastAttempts(ctx, doubtful)
	if err != nil {
		return nil, err
	}
	replaced := map[*document]bool{}
	for _, doc := range doubtful {
		replaced[doc] = doc.RetryInfo.CurrentAttempt != last[attemptsOf{doc.Group, doc.jobID()}]
	}
	return replaced, nil
}

// lastAttempts returns the numbers of the attempts of jobs that have the job's ID, or, if none has,
// of their latest attempts.
func (d *Driver) lastAttempts(ctx context.Context, docs []*document) (map[attemptsOf]int, error) {
	if len(docs) == 0 {
		return nil, nil
	}
	ids, queues := map[string]bool{}, map[string]bool{}
	for _, doc := range docs {
		ids[doc.jobID()], queues[doc.Group] = true, true
	}
	filter := d.inQueues(queues, bson.E{Key: "retry_info.base_job_id", Value: field("$in", keysOf(ids))})
	var found []struct {
		Job   attemptsOf `bson:"job"`
		Named bool       `bson:"named"`
		Last  int        `bson:"last"`
	}
	err := d.aggregate(ctx, d.jobs, bson.A{
		match(filter),
		field("$group", bson.D{
			{Key: "_id", Value: bson.D{
				{Key: "job", Value: bson.D{{Key: "queue", Value: "$group"}, {Key: "id", Value: "$retry_info.base_job_id"}}},
				{Key: "named", Value: field("$gt", bson.A{"$job_id", ""})},
			}},
			{Key: "last", Value: field("$max", "$retry_info.current_attempt")},
		}),
		field("$project", bson.D{{Key: "_id", Value: 0}, {Key: "job", Value: "$_id.job"}, {Key: "named", Value: "$_id.named"}, {Key: "last", Value: 1}}),
		field("$sort", field("named", 1)),
	}, &found)
	if err != nil {
		return nil, fmt.Errorf("querying the latest attempts of jobs: %w", err)
	}
	last := make(map[attemptsOf]int, len(found))
	for _, one := range found { // those with the ID come last
		last[one.Job] = one.Last
	}
	return last, nil
}

// Count implements driver.Driver.
func (d *Driver) Count(ctx context.Context, q driver.Query, limit int) (int, error) {
	leave, err := d.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	ctx = plain(ctx)
	n, err := d.count(ctx, q, limit)
	if err != nil {
		return n, fmt.Errorf("counting records: %w", err)
	}
	return n, nil
}

// countBatch is the number of documents that one command reads if the driver must
// examine documents to count them.
const countBatch = 2000

func (d *Driver) count(ctx context.Context, q driver.Query, limit int) (n int, err error) {
	err = checkLimit(limit)
	if err != nil {
		return 0, err
	}
	s, err := d.newSelection(ctx, q, time.Now())
	if err != nil || s.none {
		return 0, err
	}
	if !s.isApproximate() {
		found, failure := d.jobs.CountDocuments(ctx, s.with(nil), options.Count().SetLimit(int64(limit)))
		return int(found), failure
	}
	at := &position{}
	for more := true; more && n < limit; {
		var found []*document
		found, more, err = d.findNext(ctx, s, at, min(limit-n, countBatch), withoutContent)
		if err != nil {
			return n, err
		}
		n += len(found)
	}
	return n, nil
}

// withoutContent is the projection of documents that are counted, and of brief records.
var withoutContent = bson.D{{Key: "job", Value: 0}, {Key: "result", Value: 0}, {Key: "dependency", Value: 0}}

// checkLimit returns an error if a limit is invalid.
func checkLimit(limit int) error {
	if limit < 1 {
		return fmt.Errorf("invalid limit: it must be at least 1 (is %d)", limit)
	}
	return nil
}

// aggregate runs a pipeline and reads all its results.
func (d *Driver) aggregate(ctx context.Context, from *mongo.Collection, pipeline bson.A, results any) (err error) {
	cursor, err := from.Aggregate(ctx, pipeline)
	if err != nil {
		return err
	}
	return cursor.All(ctx, results)
}
