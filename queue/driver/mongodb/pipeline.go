package mongodb

import (
	"context"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
)

// match returns a stage that keeps the documents that a filter selects.
func match(filter bson.D) bson.D { return bson.D{{Key: "$match", Value: filter}} }

// project returns a stage that makes documents with a single field.
func project(name string, value any) bson.D {
	return bson.D{{Key: "$project", Value: bson.D{{Key: "_id", Value: 0}, {Key: name, Value: value}}}}
}

// union returns a stage that adds the results of a pipeline over the jobs.
func (d *Driver) union(pipeline ...any) bson.D { return union(d.jobs.Name(), pipeline...) }

func union(collection string, pipeline ...any) bson.D {
	return bson.D{{Key: "$unionWith", Value: bson.D{{Key: "coll", Value: collection}, {Key: "pipeline", Value: bson.A(pipeline)}}}}
}

// pipe calls visit with the results of a pipeline.
func (d *Driver) pipe(ctx context.Context, pipeline bson.A, visit func(bson.Raw), opts ...*options.AggregateOptions) error {
	cursor, err := d.jobs.Aggregate(ctx, pipeline, opts...)
	if err != nil {
		return err
	}
	return visitAll(ctx, cursor, visit)
}

// visitAll calls visit with what a cursor returns, and closes it.
func visitAll(ctx context.Context, cursor *mongo.Cursor, visit func(bson.Raw)) error {
	defer closeCursor(ctx, cursor)
	for cursor.Next(ctx) {
		visit(cursor.Current)
	}
	return cursor.Err()
}

// withoutJob is the projection of a document without its body.
var withoutJob = bson.D{{Key: "job", Value: 0}}

// withoutBodies returns the options of a find that excludes the bodies.
func withoutBodies() *options.FindOptions { return options.Find().SetProjection(withoutJob) }

// each calls visit with the documents that a filter selects.
func (d *Driver) each(ctx context.Context, filter bson.D, opts *options.FindOptions, visit func(*document) error) error {
	return d.eachRaw(ctx, filter, opts, func(raw bson.Raw) error { return visit(decode(raw)) })
}

// eachRaw is each before a document is decoded. Its bytes must not be used after visit.
func (d *Driver) eachRaw(ctx context.Context, filter bson.D, opts *options.FindOptions, visit func(bson.Raw) error) error {
	cursor, err := d.jobs.Find(ctx, filter, opts)
	if err != nil {
		return err
	}
	defer closeCursor(ctx, cursor)
	for cursor.Next(ctx) {
		err = visit(cursor.Current)
		if err != nil {
			return err
		}
	}
	return cursor.Err()
}

// closeCursor closes a cursor that is no longer needed. Its error is ignored, because the
// server removes the cursor itself if the request does not reach it.
func closeCursor(ctx context.Context, cursor *mongo.Cursor) { _ = cursor.Close(ctx) }
