package mongodb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/typelimit"
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
	// Types is what typelimit.EncodeLimits returned for the limits of types.
	Types string `bson:"types,omitempty"`
	// Drains counts how often Draining was set, to true or false.
	Drains int `bson:"drains,omitempty"`
	// Answers lists the members of the drain barrier that know the current value of
	// Draining.
	Answers []string `bson:"answers,omitempty"`
	// Removed counts the records that were forgotten or deleted.
	Removed int `bson:"removed,omitempty"`
	// Since is when a member of the drain barrier has last shown that it lives.
	Since time.Time `bson:"since,omitempty"`
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
	// Only this driver writes the text; what is not such a text limits nothing.
	control.Types, _ = typelimit.DecodeLimits(c.Types)
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
	d.tell(driver.Anywhere)
	if change.NoRate {
		err = d.dropBucket(ctx, rateKey(queue))
		if err != nil {
			return stored, err
		}
	}
	if change.Type != nil && change.Type.Limit.Rate == nil {
		err = d.dropTypeBucket(ctx, queue, change.Type.Type)
		if err != nil {
			return stored, err
		}
	}
	if change.Draining == nil {
		return stored, nil
	}
	d.barrier.set(stored)
	if stored.Draining {
		bounded, cancel := context.WithTimeout(ctx, memberTimeout)
		err = d.barrier.awaitInserts(bounded, queue)
		cancel()
		if err == nil {
			err = d.barrier.awaitAnswers(ctx, stored)
		}
	}
	if err != nil {
		return stored, unknown(fmt.Errorf("the queue is draining, but other processes may not know yet: %w", err))
	}
	return stored, nil
}

// setControl changes the control document. Many processes may change it at once, as when they start and
// set the limits of their types.
func (d *Driver) setControl(ctx context.Context, queue string, change driver.ControlChange) (stored controlDocument, err error) {
	for round := 1; ; round++ {
		stored, err = d.tryControl(ctx, queue, change)
		if !mongo.IsDuplicateKeyError(err) || round == maxRounds || pause(ctx, round) != nil {
			return stored, err
		}
	}
}

// tryControl fails with a duplicate key if another call has created the document, or has changed the
// limits of types since this call read them.
func (d *Driver) tryControl(ctx context.Context, queue string, change driver.ControlChange) (stored controlDocument, err error) {
	opts := options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After)
	err = attempts(ctx, func() error {
		filter := field("_id", controlKey(queue))
		update := d.updateOf(queue, change)
		if change.Type != nil {
			before, readErr := d.readControl(ctx, queue)
			if readErr != nil {
				return readErr
			}
			types, applyErr := typesAfter(before, change)
			if applyErr != nil {
				return applyErr
			}
			filter = append(filter, isText("types", before.Types)...)
			update.setText("types", types)
		}
		return d.control.FindOneAndUpdate(ctx, filter, update.document(), opts).Decode(&stored)
	}, nil)
	return stored, err
}

// controlUpdate is an update of a control document.
type controlUpdate struct{ set, unset, inc bson.D }

// setText sets a field, or removes it if the text is empty.
func (u *controlUpdate) setText(name, text string) {
	if text == "" {
		u.unset = append(u.unset, bson.E{Key: name, Value: ""})
		return
	}
	u.set = append(u.set, bson.E{Key: name, Value: text})
}

func (u *controlUpdate) document() (update bson.D) {
	for _, part := range []bson.E{{Key: "$set", Value: u.set}, {Key: "$unset", Value: u.unset}, {Key: "$inc", Value: u.inc}} {
		if len(part.Value.(bson.D)) > 0 {
			update = append(update, part)
		}
	}
	return update
}

// updateOf returns the update that makes a change, without the limits of types.
func (d *Driver) updateOf(queue string, change driver.ControlChange) *controlUpdate {
	u := &controlUpdate{set: bson.D{{Key: "queue", Value: queue}}}
	set := func(name string, value any) { u.set = append(u.set, bson.E{Key: name, Value: value}) }
	if change.Paused != nil {
		set("paused", *change.Paused)
	}
	if change.MaxRunning != nil {
		set("max_running", *change.MaxRunning)
	}
	if change.Draining != nil {
		set("draining", *change.Draining)
		set("answers", []string{d.barrier.id})
		u.inc = field("drains", 1)
	}
	if change.Rate != nil {
		set("rate", change.Rate.PerSecond)
		set("burst", change.Rate.Burst)
	}
	if change.NoRate {
		u.unset = bson.D{{Key: "rate", Value: ""}, {Key: "burst", Value: ""}}
	}
	return u
}

// typesAfter returns the stored limits of types after a change.
func typesAfter(before controlDocument, change driver.ControlChange) (string, error) {
	after, err := change.Apply(before.control())
	if err != nil {
		return "", err
	}
	return typelimit.EncodeLimits(after.Types)
}

// isText returns a filter for a field with a text, or without a value if the text is empty.
func isText(name, text string) bson.D {
	if text == "" {
		return field(name, field("$exists", false))
	}
	return field(name, text)
}
