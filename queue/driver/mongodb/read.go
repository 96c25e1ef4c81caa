package mongodb

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// Get implements driver.Driver. A record that can't be read is returned without a job.
func (d *Driver) Get(ctx context.Context, queue, id string) (*driver.Record, error) {
	leave, err := d.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx = plain(ctx)
	doc, err := d.latest(ctx, queue, id)
	if err == nil && doc == nil {
		err = amboy.NewJobNotFoundErrorf("there is no job %q in queue %q", id, queue)
	}
	if err != nil {
		return nil, fmt.Errorf("getting job %q: %w", id, err)
	}
	return doc.record(), nil
}

// latest reads the latest attempt of a job. It returns nil if there is none.
func (d *Driver) latest(ctx context.Context, queue, id string) (*document, error) {
	doc, err := d.first(ctx, d.inQueue(queue, bson.E{Key: "job_id", Value: id}), nil)
	if doc != nil || err != nil {
		return doc, err
	}
	return d.first(ctx, d.withoutJobID(queue, id), field("retry_info.current_attempt", -1))
}

// withoutJobID returns a filter for the attempts of jobs whose ID is the job_id of no document: the legacy
// library stored the job, or its last attempt was removed or is about to take the place of the one
// before it.
func (d *Driver) withoutJobID(queue string, jobs ...string) bson.D {
	var ids bson.A
	for _, job := range jobs {
		ids = append(ids, d.idsOf(queue, driver.RecordName(queue, job, amboy.JobRetryInfo{}))...)
	}
	return either(
		d.inQueue(queue, bson.E{Key: "_id", Value: field("$in", ids)}, bson.E{Key: "retry_info.retryable", Value: field("$ne", true)}),
		d.attemptsOf(queue, jobs...),
	)
}

// attemptsOf returns a filter for the attempts of retryable jobs.
func (d *Driver) attemptsOf(queue string, jobs ...string) bson.D {
	return d.inQueue(queue,
		bson.E{Key: "retry_info.base_job_id", Value: field("$in", jobs)},
		bson.E{Key: "retry_info.retryable", Value: true},
	)
}

// first reads the first document that a filter selects, in an order. It returns nil if
// there is none.
func (d *Driver) first(ctx context.Context, filter, order bson.D) (found *document, err error) {
	opts := options.Find().SetLimit(1)
	if order != nil {
		opts.SetSort(order)
	}
	err = d.each(ctx, filter, opts, func(doc *document) error {
		found = doc
		return nil
	})
	return found, err
}

// Attempts implements driver.Driver.
func (d *Driver) Attempts(ctx context.Context, queue, id string) ([]*driver.Record, error) {
	leave, err := d.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx = plain(ctx)
	var docs []*document
	err = d.each(ctx, d.attemptsOf(queue, id), options.Find().SetSort(field("retry_info.current_attempt", 1)), func(doc *document) error {
		docs = append(docs, doc)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("getting the attempts of job %q: %w", id, err)
	}
	if n := len(docs); n > 1 && docs[n-1].Handover != nil && !docs[n-2].madeWay() {
		docs = docs[:n-1] // it does not replace the attempt before it yet
	}
	attempts := make([]*driver.Record, len(docs))
	for i, doc := range docs {
		attempts[i] = doc.record()
	}
	return attempts, nil
}

// CancelRequests implements driver.Driver.
func (d *Driver) CancelRequests(ctx context.Context, owner string) (leases []driver.Lease, err error) {
	leave, err := d.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx = plain(ctx)
	filter := bson.D{
		{Key: "status.owner", Value: owner},
		{Key: "cancel_requested", Value: true},
		{Key: "status.completed", Value: false},
		{Key: "status.in_prog", Value: true},
	}
	opts := options.Find().SetProjection(bson.D{{Key: "group", Value: 1}, {Key: "status", Value: 1}, {Key: "order", Value: 1}})
	err = d.each(ctx, filter, opts, func(doc *document) error {
		leases = append(leases, d.leases.given(doc))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the cancel requests for owner %q: %w", owner, err)
	}
	return leases, nil
}
