package mongodb

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mongodb/grip/message"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
)

// awaitEvents is how long the server waits for events before it returns an empty batch.
const awaitEvents = 30 * time.Second

// betweenEvents is how long further events are gathered after subscribers were notified.
const betweenEvents = 10 * time.Millisecond

// lostPlaceCodes are the errors of a change stream that can't be resumed.
var lostPlaceCodes = []int{136, 260, 280, 286}

// invalidations are the events after which a change stream ends.
var invalidations = bson.A{"drop", "rename", "dropDatabase", "invalidate"}

// stream follows the changes of a collection. If it is interrupted, it is resumed; if it
// can't be resumed, everything is read anew.
type stream struct {
	collection *mongo.Collection
	pipeline   mongo.Pipeline
	// event is called for each event, and anew if events may have been missed. event
	// reports whether there may be something to claim.
	event func(ctx context.Context, e event) (mayClaim bool, err error)
	anew  func(ctx context.Context) error
	// notify is called after each batch of events.
	notify func(driver.Change)
	// poll is called between attempts to reopen the stream.
	poll  func(ctx context.Context) error
	every time.Duration

	token  bson.Raw
	broken bool
}

// event is a change in a collection.
type event struct {
	Operation string `bson:"operationType"`
	Key       struct {
		ID any `bson:"_id"`
	} `bson:"documentKey"`
	Document bson.Raw `bson:"fullDocument"`
	Update   struct {
		Fields bson.Raw `bson:"updatedFields"`
	} `bson:"updateDescription"`
}

// open opens the stream.
func (s *stream) open(ctx context.Context) (*mongo.ChangeStream, error) {
	opts := options.ChangeStream().SetMaxAwaitTime(awaitEvents)
	if s.token != nil {
		opts.SetResumeAfter(s.token)
	}
	return s.collection.Watch(ctx, s.pipeline, opts)
}

// run follows the stream until ctx ends. opened is nil if it could not be opened.
func (s *stream) run(ctx context.Context, opened *mongo.ChangeStream) {
	for {
		if opened != nil {
			s.follow(ctx, opened)
		}
		if !sleep(ctx, s.every) {
			return
		}
		if err := s.poll(ctx); err != nil {
			s.report(ctx, err)
		}
		missed := s.token == nil
		var err error
		opened, err = s.open(ctx)
		if err != nil {
			s.failed(ctx, err)
			continue
		}
		if missed {
			err = s.anew(ctx)
		}
		if err != nil {
			s.failed(ctx, err)
			_ = opened.Close(ctx) // it will be reopened
			opened = nil
			continue
		}
		s.broken = false
	}
}

// sleep returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// follow passes events on until the stream is interrupted.
func (s *stream) follow(ctx context.Context, opened *mongo.ChangeStream) {
	defer func() { _ = opened.Close(context.WithoutCancel(ctx)) }() // otherwise the server removes the cursor itself
	mayClaim := false
	for opened.Next(ctx) {
		var e event
		err := bson.Unmarshal(opened.Current, &e)
		if err == nil {
			var may bool
			may, err = s.event(ctx, e)
			mayClaim = mayClaim || may
		}
		if err != nil {
			s.failed(ctx, err)
			return
		}
		s.token = opened.ResumeToken()
		if opened.RemainingBatchLength() > 0 {
			continue
		}
		s.notify(driver.Change{MayClaim: mayClaim})
		mayClaim = false
		// Handling a single change costs a subscriber as much as handling all of them.
		if !sleep(ctx, betweenEvents) {
			return
		}
	}
	if token := opened.ResumeToken(); token != nil {
		s.token = token
	}
	s.failed(ctx, opened.Err())
}

// failed records that the stream was interrupted, and logs the reason once.
func (s *stream) failed(ctx context.Context, err error) {
	var failure mongo.ServerError
	if errors.As(err, &failure) && slices.ContainsFunc(lostPlaceCodes, failure.HasErrorCode) {
		s.token = nil
	}
	if !s.broken {
		s.broken = true
		s.report(ctx, err)
	}
}

func (s *stream) report(ctx context.Context, err error) {
	if ctx.Err() != nil || err == nil {
		return
	}
	logging.Warning(ctx, message.Fields{
		"message":    "change stream is interrupted; polling for changes until it is reopened",
		"collection": s.collection.Name(),
		"every":      s.every.String(),
		"error":      err.Error(),
	})
}

// watch notifies subscribers of changes by other processes until ctx ends.
func (d *Driver) watch(opening, ctx context.Context) error {
	if !d.isReplica {
		d.joined.Go(func() { d.poll(ctx) })
		return nil
	}
	for _, s := range []*stream{d.jobsStream(), d.controlStream()} {
		opened, err := s.open(opening)
		if err != nil {
			return err
		}
		d.joined.Go(func() { s.run(ctx, opened) })
	}
	return nil
}

// poll reads the controls that other processes set, for deployments without change
// streams. Claims query the jobs themselves.
func (d *Driver) poll(ctx context.Context) {
	broken := false
	for sleep(ctx, d.opts.PollInterval) {
		err := d.barrier.refresh(ctx)
		if err != nil && !broken && ctx.Err() == nil {
			logging.Warning(ctx, message.Fields{
				"message":    "reading the settings of the queues failed",
				"collection": d.control.Name(),
				"error":      err.Error(),
			})
		}
		broken = err != nil
	}
}

func (d *Driver) jobsStream() *stream {
	anew := func(context.Context) error {
		d.sweeper.hurry()
		d.subscribers.Notify(driver.Anywhere)
		return nil
	}
	return &stream{
		collection: d.jobs,
		pipeline:   d.others(),
		event:      d.jobChanged,
		notify:     d.subscribers.Notify,
		anew:       anew,
		poll:       anew,
		every:      d.opts.PollInterval,
	}
}

// others returns the stages that exclude from a change stream the driver's own changes
// and the quiet ones of others. They keep only the needed fields of events.
func (d *Driver) others() mongo.Pipeline {
	own := d.revs.first()
	between := func(path string, from, to int64) bson.D {
		return field(path, bson.D{{Key: "$gte", Value: from}, {Key: "$lt", Value: to}})
	}
	byOthers := func(path string) bson.D {
		return either(
			between(path, 0, own),
			between(path, own+ownRevisions, endedRevision+own),
			between(path, endedRevision+own+ownRevisions, quiet),
		)
	}
	const updated = "updateDescription.updatedFields."
	return mongo.Pipeline{
		match(either(
			all(field("operationType", field("$in", bson.A{"insert", "replace"})),
				either(byOthers("fullDocument.rev"), field("fullDocument.rev", nil))),
			all(field("operationType", "update"), byOthers(updated+"rev")),
			// The legacy library sets no rev. Neither do Extend and SetProgress, which
			// are excluded.
			all(field("operationType", "update"), field(updated+"rev", nil), field(updated+"lease_until", nil), field(updated+"progress", nil)),
			field("operationType", field("$in", invalidations)),
		)),
		{{Key: "$project", Value: bson.D{
			{Key: "operationType", Value: 1},
			{Key: "documentKey._id", Value: 1},
			{Key: "fullDocument.rev", Value: 1},
			{Key: "updateDescription.updatedFields.rev", Value: 1},
		}}},
	}
}

// jobChanged is called when another process has changed a job.
func (d *Driver) jobChanged(_ context.Context, e event) (mayClaim bool, err error) {
	rev, known := e.Update.Fields.Lookup("rev").AsInt64OK()
	if len(e.Document) > 0 {
		rev, known = e.Document.Lookup("rev").AsInt64OK()
	}
	switch {
	case !known:
		d.sweeper.sweepLegacy()
	case rev < ownRevisions: // committed with a caller's transaction
		d.avoided.clear()
		if id, ok := e.Key.ID.(string); ok {
			d.sweeper.awaited.add(id)
		}
		d.sweeper.hurry()
	default:
		d.sweeper.watch() // the other process may leave work undone
	}
	return rev < endedRevision || d.limits.any(), nil
}

func (d *Driver) controlStream() *stream {
	refresh := func(ctx context.Context) error {
		d.subscribers.Notify(driver.Anywhere)
		return d.barrier.refresh(ctx)
	}
	return &stream{
		collection: d.control,
		pipeline: mongo.Pipeline{match(either(
			field("documentKey._id", primitive.Regex{Pattern: "^" + controlPrefix}),
			field("operationType", "delete"),
			field("operationType", field("$in", invalidations)),
		))},
		event:  d.controlChanged,
		notify: d.subscribers.Notify,
		anew:   refresh,
		poll:   refresh,
		every:  d.opts.PollInterval,
	}
}

// controlChanged is called when a document of the control collection has changed. Update
// events do not contain the document, so it is read.
func (d *Driver) controlChanged(ctx context.Context, e event) (mayClaim bool, err error) {
	id, _ := e.Key.ID.(string)
	var doc *controlDocument
	if e.Operation != "delete" {
		docs, err := d.barrier.read(ctx, field("_id", id))
		if err != nil {
			return true, err
		}
		if len(docs) > 0 {
			doc = &docs[0]
		}
	}
	return true, d.barrier.event(ctx, id, doc)
}
