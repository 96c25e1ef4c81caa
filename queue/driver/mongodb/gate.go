package mongodb

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy"
)

// gate keeps records out of queues that are drained, at no command for an Insert.
// Each process on a store is a member, and knows which queues are drained, as it
// sees their control documents change. Who drains a queue waits until each member
// has answered, which it does when it has seen that and all of its inserts in the
// queue have ended; so nothing comes into the queue from then on.
type gate struct {
	control *mongo.Collection
	id      string // of this member
	poll    time.Duration

	mu     sync.Mutex
	queues map[string]*gated
	seen   chan struct{} // closed, and replaced, when a control document was seen
}

// gated is a queue as a gate knows it.
type gated struct {
	drained bool
	// drains is how often it was drained, or not any more.
	drains  int
	inserts int           // under way
	idle    chan struct{} // closed when there are none; nil where nobody waits for that
}

// memberPatience is how long who drains a queue waits for the answer of a member,
// which is taken for dead then.
const memberPatience = 5 * time.Second

const memberPrefix = "member/"

func newGate(control *mongo.Collection, poll time.Duration) *gate {
	return &gate{
		control: control,
		id:      memberPrefix + primitive.NewObjectID().Hex(),
		poll:    poll,
		queues:  map[string]*gated{},
		seen:    make(chan struct{}),
	}
}

// join makes the process a member.
func (g *gate) join(ctx context.Context) error {
	_, err := g.control.UpdateOne(ctx, field("_id", g.id), bson.D{{Key: "$currentDate", Value: field("since", true)}}, options.Update().SetUpsert(true))
	if err != nil {
		return fmt.Errorf("telling the other processes of this one: %w", err)
	}
	return g.refresh(ctx)
}

// leave ends the membership.
func (g *gate) leave(ctx context.Context) error {
	if _, err := g.control.DeleteOne(ctx, field("_id", g.id)); err != nil {
		return fmt.Errorf("telling the other processes that this one ends: %w", err)
	}
	return nil
}

// refresh looks for queues that are drained. It joins again where the others took
// this process for dead.
func (g *gate) refresh(ctx context.Context) error {
	docs, err := g.read(ctx, either(field("draining", true), field("_id", g.id)))
	if err != nil {
		return fmt.Errorf("looking for queues that are drained: %w", err)
	}
	isMember := false
	for _, doc := range docs {
		if doc.ID == g.id {
			isMember = true
			continue
		}
		err = g.see(ctx, doc)
		if err != nil {
			return err
		}
	}
	if !isMember {
		return g.join(ctx)
	}
	return nil
}

func (g *gate) read(ctx context.Context, filter bson.D) (docs []controlDocument, err error) {
	cursor, err := g.control.Find(ctx, filter)
	if err != nil {
		return nil, err
	}
	err = cursor.All(ctx, &docs)
	return docs, err
}

// event is called when a document of the control collection has changed; doc is
// nil where it was removed.
func (g *gate) event(ctx context.Context, id string, doc *controlDocument) error {
	switch {
	case doc != nil && strings.HasPrefix(id, controlPrefix):
		return g.see(ctx, *doc)
	case doc == nil && id == g.id:
		return g.refresh(ctx)
	default:
		return nil
	}
}

// see takes note of the control document of a queue, and answers who drained it,
// once all inserts have ended.
func (g *gate) see(ctx context.Context, doc controlDocument) error {
	g.set(doc)
	if !doc.Draining || slices.Contains(doc.Answers, g.id) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, memberPatience)
	defer cancel()
	if err := g.awaitInserts(ctx, doc.Queue); err != nil {
		return err
	}
	filter := bson.D{{Key: "_id", Value: doc.ID}, {Key: "drains", Value: doc.Drains}}
	_, err := g.control.UpdateOne(ctx, filter, field("$addToSet", field("answers", g.id)))
	if err != nil {
		return fmt.Errorf("answering that queue %q is drained: %w", doc.Queue, err)
	}
	return nil
}

// set makes the queue what its control document says, unless a later one was seen.
func (g *gate) set(doc controlDocument) {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.queue(doc.Queue)
	if doc.Drains >= q.drains {
		q.drained, q.drains = doc.Draining, doc.Drains
	}
	close(g.seen)
	g.seen = make(chan struct{})
}

func (g *gate) queue(name string) *gated {
	q := g.queues[name]
	if q == nil {
		q = &gated{}
		g.queues[name] = q
	}
	return q
}

// enter begins an insert in a queue, and returns what is to be called when it has
// ended. The error wraps amboy.ErrQueueDraining where the queue is drained, which
// the server is asked where it was so when it was last seen.
func (g *gate) enter(ctx context.Context, queue string) (leave func(), err error) {
	for {
		leave = g.tryEnter(queue)
		if leave != nil {
			return leave, nil
		}
		docs, err := g.read(ctx, field("_id", controlKey(queue)))
		if err != nil {
			return nil, fmt.Errorf("looking whether queue %q is drained: %w", queue, err)
		}
		if len(docs) > 0 && docs[0].Draining {
			return nil, fmt.Errorf("queue %q: %w", queue, amboy.ErrQueueDraining)
		}
		doc := controlDocument{Queue: queue}
		if len(docs) > 0 {
			doc = docs[0]
		}
		g.set(doc)
	}
}

func (g *gate) tryEnter(queue string) (leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.queue(queue)
	if q.drained {
		return nil
	}
	q.inserts++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		q.inserts--
		if q.inserts == 0 && q.idle != nil {
			close(q.idle)
			q.idle = nil
		}
	}
}

// awaitInserts waits until all inserts in a queue have ended that are under way.
func (g *gate) awaitInserts(ctx context.Context, queue string) error {
	g.mu.Lock()
	q := g.queue(queue)
	if q.inserts == 0 {
		g.mu.Unlock()
		return nil
	}
	if q.idle == nil {
		q.idle = make(chan struct{})
	}
	idle := q.idle
	g.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the inserts in queue %q to end: %w", queue, ctx.Err())
	}
}

// awaitAnswers waits until all members have answered who has drained a queue. Those
// that don't are members no more.
func (g *gate) awaitAnswers(ctx context.Context, drained controlDocument) error {
	patience := time.NewTimer(memberPatience)
	defer patience.Stop()
	poll := time.NewTicker(g.poll)
	defer poll.Stop()
	for {
		seen := g.nextSeen()
		silent, err := g.silent(ctx, drained)
		if err != nil || len(silent) == 0 {
			return err
		}
		select {
		case <-seen:
		case <-poll.C:
		case <-patience.C:
			_, err = g.control.DeleteMany(ctx, field("_id", field("$in", silent)))
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (g *gate) nextSeen() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen
}

// silent are the members that have not answered.
func (g *gate) silent(ctx context.Context, drained controlDocument) (ids []string, err error) {
	isMember := field("_id", primitive.Regex{Pattern: "^" + memberPrefix})
	docs, err := g.read(ctx, either(field("_id", drained.ID), isMember))
	if err != nil {
		return nil, err
	}
	var answers []string
	for _, doc := range docs {
		if doc.ID == drained.ID {
			if doc.Drains != drained.Drains {
				return nil, nil // somebody has changed it since, and sees to it
			}
			answers = doc.Answers
			continue
		}
		ids = append(ids, doc.ID)
	}
	return without(ids, append(answers, g.id)), nil
}
