package mongodb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
)

// findTime is how long the server may search for the documents that a filter selects.
const findTime = 500 * time.Millisecond

// scanBatch is the number of documents that the server examines per page if it can't
// find the selected ones within findTime.
const scanBatch = 50_000

// read reads the next documents that the filter selects, up to size. If the server takes
// too long, it examines only a limited number of documents, the last of which is end.
func (d *Driver) read(ctx context.Context, s *selection, at *position, size int, projection bson.D) (docs []*document, end *position, err error) {
	if at.Scans {
		return d.scan(ctx, s, at, size, projection)
	}
	opts := options.Find().SetSort(at.sort()).SetLimit(int64(size)).SetMaxTime(findTime)
	if projection != nil {
		opts.SetProjection(projection)
	}
	err = d.eachRaw(ctx, s.with(at.ahead()), opts, func(raw bson.Raw) error {
		docs = append(docs, s.decode(raw))
		return nil
	})
	if isOutOfTime(err) && ctx.Err() == nil {
		at.Scans = true
		return d.scan(ctx, s, at, size, projection)
	}
	return docs, nil, err
}

// isOutOfTime reports whether the server stopped a call that exceeded its time limit.
func isOutOfTime(err error) bool {
	var failure mongo.ServerError
	return errors.As(err, &failure) && failure.HasErrorCode(codeMaxTimeExpired)
}

// scan reads the documents that the filter selects among the next d.scanBatch
// documents, up to size. end is the last examined document, or nil if there are no more.
func (d *Driver) scan(ctx context.Context, s *selection, at *position, size int, projection bson.D) (docs []*document, end *position, err error) {
	end, err = d.scanEnd(ctx, s, at)
	if err != nil {
		return nil, nil, fmt.Errorf("finding the end of the scan: %w", err)
	}
	next := []bson.D{s.queues, at.ahead()}
	if end != nil {
		next = append(next, end.behind())
	}
	// The limit makes the server read in order, whatever the filter is. It is twice as
	// large as needed because documents may have been added in between.
	pipeline := append(inOrder(at, 2*d.scanBatch, next...), match(s.with()), field("$limit", size))
	if projection != nil {
		pipeline = append(pipeline, field("$project", projection))
	}
	err = d.pipe(ctx, pipeline, func(raw bson.Raw) { docs = append(docs, s.decode(raw)) }, options.Aggregate().SetAllowDiskUse(true))
	return docs, end, err
}

// inOrder returns a pipeline for the first documents that filters select.
func inOrder(at *position, limit int, filters ...bson.D) bson.A {
	filters = slices.DeleteFunc(filters, func(filter bson.D) bool { return len(filter) == 0 })
	return bson.A{match(all(append(filters, bson.D{})...)), field("$sort", at.sort()), field("$limit", limit)}
}

// scanEnd returns the position after the last document that a scan examines, or nil if
// the scan reaches the end.
func (d *Driver) scanEnd(ctx context.Context, s *selection, at *position) (*position, error) {
	var ends []struct {
		Number int    `bson:"number"`
		Order  int64  `bson:"order"`
		ID     string `bson:"id"`
	}
	pipeline := append(inOrder(at, d.scanBatch, s.queues, at.ahead()), field("$group", bson.D{
		{Key: "_id", Value: nil},
		{Key: "number", Value: field("$sum", 1)},
		{Key: "order", Value: field("$last", "$order")},
		{Key: "id", Value: field("$last", "$_id")},
	}))
	err := d.aggregate(ctx, d.jobs, pipeline, &ends)
	if err != nil || len(ends) == 0 || ends[0].Number < d.scanBatch {
		return nil, err
	}
	end := *at
	end.pass(ends[0].Order, ends[0].ID)
	return &end, nil
}
