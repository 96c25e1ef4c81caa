package mongodb

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// controlDocument is the document of a queue in the control collection.
type controlDocument struct {
	ID         string `bson:"_id"` // see controlKey
	Queue      string `bson:"queue"`
	Paused     bool   `bson:"paused,omitempty"`
	Draining   bool   `bson:"draining,omitempty"`
	MaxRunning int    `bson:"max_running,omitempty"`
	// Rate is the number of jobs that start per second, nil for no limit; the bucket is a
	// document of its own.
	Rate  *float64 `bson:"rate,omitempty"`
	Burst int      `bson:"burst,omitempty"`
	// Drains counts how often Draining was set, to true or false.
	Drains int `bson:"drains,omitempty"`
	// Answers lists the members of the drain barrier that know the current value of
	// Draining.
	Answers []string `bson:"answers,omitempty"`
	// Removed counts the records that were forgotten or deleted.
	Removed int `bson:"removed,omitempty"`
}

const controlPrefix = "queue/"

// controlKey is the _id of the control document of a queue.
func controlKey(queue string) string { return controlPrefix + queue }

// withPrefix returns a filter for strings with a prefix that ends in a slash. The
// character after the slash is 0.
func withPrefix(with string) bson.D {
	return bson.D{{Key: "$gte", Value: with}, {Key: "$lt", Value: strings.TrimSuffix(with, "/") + "0"}}
}

func (c controlDocument) control() driver.Control {
	control := driver.Control{Paused: c.Paused, Draining: c.Draining, MaxRunning: c.MaxRunning}
	if c.Rate != nil {
		control.Rate = &amboy.Rate{PerSecond: *c.Rate, Burst: c.Burst}
	}
	return control
}

// Control implements driver.Driver. It returns an error if a setting is out of range.
func (d *Driver) Control(ctx context.Context, queue string, change driver.ControlChange) (driver.Control, error) {
	if err := change.Validate(); err != nil {
		return driver.Control{}, fmt.Errorf("controlling queue %q: %w", queue, err)
	}
	leave, err := d.enter(ctx)
	if err != nil {
		return driver.Control{}, err
	}
	defer leave()
	ctx = plain(ctx)
	var stored controlDocument
	if change == (driver.ControlChange{}) {
		stored, err = d.readControl(ctx, queue)
	} else {
		stored, err = d.writeControl(ctx, queue, change)
	}
	if err != nil {
		return driver.Control{}, fmt.Errorf("controlling queue %q: %w", queue, err)
	}
	return stored.control(), nil
}

// readControl reads the control document of a queue. It returns an empty document if
// there is none.
func (d *Driver) readControl(ctx context.Context, queue string) (stored controlDocument, err error) {
	err = d.control.FindOne(ctx, bson.D{{Key: "_id", Value: controlKey(queue)}}).Decode(&stored)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return controlDocument{}, nil
	}
	return stored, err
}

// writeControl changes the control document of a queue. If the change drains the queue,
// it waits until all processes know.
func (d *Driver) writeControl(ctx context.Context, queue string, change driver.ControlChange) (stored controlDocument, err error) {
	stored, err = d.setControl(ctx, queue, change)
	if err != nil {
		return stored, err
	}
	d.subscribers.Notify(driver.Anywhere)
	if change.NoRate {
		err = d.dropBucket(ctx, queue)
		if err != nil {
			return stored, err
		}
	}
	if change.Draining == nil {
		return stored, nil
	}
	d.barrier.set(stored)
	if stored.Draining {
		err = d.barrier.awaitInserts(ctx, queue)
		if err == nil {
			err = d.barrier.awaitAnswers(ctx, stored)
		}
	}
	if err != nil {
		return stored, unknown(fmt.Errorf("the queue is draining, but other processes may not know yet: %w", err))
	}
	return stored, nil
}

func (d *Driver) setControl(ctx context.Context, queue string, change driver.ControlChange) (stored controlDocument, err error) {
	set := bson.D{{Key: "queue", Value: queue}}
	if change.Paused != nil {
		set = append(set, bson.E{Key: "paused", Value: *change.Paused})
	}
	if change.MaxRunning != nil {
		set = append(set, bson.E{Key: "max_running", Value: *change.MaxRunning})
	}
	update := bson.D{}
	if change.Draining != nil {
		set = append(set, bson.E{Key: "draining", Value: *change.Draining}, bson.E{Key: "answers", Value: []string{d.barrier.id}})
		update = field("$inc", field("drains", 1))
	}
	if change.Rate != nil {
		set = append(set, bson.E{Key: "rate", Value: change.Rate.PerSecond}, bson.E{Key: "burst", Value: change.Rate.Burst})
	}
	if change.NoRate {
		update = append(update, bson.E{Key: "$unset", Value: bson.D{{Key: "rate", Value: ""}, {Key: "burst", Value: ""}}})
	}
	update = append(update, bson.E{Key: "$set", Value: set})
	opts := options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After)
	err = attempts(ctx, func() error {
		return d.control.FindOneAndUpdate(ctx, field("_id", controlKey(queue)), update, opts).Decode(&stored)
	}, mongo.IsDuplicateKeyError)
	return stored, err
}
