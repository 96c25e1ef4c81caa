package mongodb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
)

// markKey returns the _id of the control document of a mark. The name of the queue is
// quoted, so that keys are unique.
func markKey(queue, name string) string { return fmt.Sprintf("mark/%q/%s", queue, name) }

// markDocument is the document of a mark in the control collection.
type markDocument struct {
	At time.Time `bson:"at"`
}

// Mark implements driver.Driver.
func (d *Driver) Mark(ctx context.Context, queue, name string, at time.Time) (last time.Time, err error) {
	leave, err := d.enter(ctx)
	if err != nil {
		return time.Time{}, err
	}
	defer leave()
	ctx = plain(ctx)
	err = attempts(ctx, func() (failure error) {
		last, failure = d.mark(ctx, markKey(queue, name), at)
		return failure
	}, mongo.IsDuplicateKeyError)
	if err != nil {
		return time.Time{}, fmt.Errorf("marking %q of queue %q: %w", name, queue, err)
	}
	return last, nil
}

// mark raises a mark, unless the time is zero, and returns its previous value. Two calls
// that create the same mark at once may get a duplicate key error; the mark exists then
// and can be raised.
func (d *Driver) mark(ctx context.Context, key string, at time.Time) (time.Time, error) {
	var found *mongo.SingleResult
	if at.IsZero() {
		found = d.control.FindOne(ctx, field("_id", key))
	} else {
		// $max makes the order of concurrent calls irrelevant.
		raise := field("$max", field("at", at.Truncate(time.Millisecond)))
		found = d.control.FindOneAndUpdate(ctx, field("_id", key), raise,
			options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.Before))
	}
	var before markDocument
	err := found.Decode(&before)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return time.Time{}, nil
	}
	return before.At.UTC(), err
}
