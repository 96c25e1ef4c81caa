package mongodb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy"
)

// drainBarrier keeps records out of draining queues without an extra command per Insert. Each
// process that inserts is a member of the barrier, and knows which queues are draining
// because it follows the control documents, by its change stream or by reading them
// regularly. The process that drains a queue waits until
// each member has answered. A member answers when it knows of the drain and all of its
// inserts into the queue have ended, with the callers' transactions that they are in. So nothing is
// inserted into the queue from then on.
type drainBarrier struct {
	control *mongo.Collection
	id      string        // of this member
	every   time.Duration // how often to read them without a change stream
	// background calls a function in a goroutine that ends before the driver is closed.
	background func(call func(context.Context))
	puts       *uncommitted // in callers' transactions
	// listens is true once a change stream shows the control documents.
	listens atomic.Bool

	// joining has one element, which is taken to join and to leave.
	joining chan struct{}

	mu       sync.Mutex
	joined   time.Time // zero if this process is no member
	inserted time.Time // when the last insert began
	inserts  int       // in progress
	queues   map[string]*drainState
	seen     chan struct{} // closed and replaced after each control document that was read
}

// drainState is what a member knows of a queue.
type drainState struct {
	drained bool
	// drains counts how often draining was switched on or off.
	drains int
	// answering is the drains of the drain that is being answered in the background.
	answering int
	inserts   int           // in progress
	idle      chan struct{} // closed when there are none; nil if there is no waiter
}

// memberTimeout is how long a drain waits for the answer of a member before it treats
// the member as dead.
const memberTimeout = 5 * time.Second

// confirmEvery is how often a member shows that it lives while its inserts hold up its answer.
const confirmEvery = time.Second

const (
	// rejoinEvery is how often a member shows that it lives, and deadAfter how long it must not
	// have done so before another one removes it.
	rejoinEvery = time.Hour
	deadAfter   = 3 * time.Hour
	// idleAfter is how long a process that has no change stream remains a member without
	// an insert.
	idleAfter = 10 * time.Second
)

const memberPrefix = "member/"

func newDrainBarrier(control, jobs *mongo.Collection, poll time.Duration) *drainBarrier {
	return &drainBarrier{
		control: control,
		id:      memberPrefix + primitive.NewObjectID().Hex(),
		every:   poll,
		puts:    &uncommitted{jobs: jobs},
		joining: make(chan struct{}, 1),
		queues:  map[string]*drainState{},
		seen:    make(chan struct{}),
	}
}

// exclusively calls a function that joins or leaves while no other one does.
func (g *drainBarrier) exclusively(ctx context.Context, call func() error) error {
	select {
	case g.joining <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-g.joining }()
	return call()
}

func (g *drainBarrier) isMember() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.joined.IsZero()
}

// join makes the process a member, and removes members that have been dead for long.
func (g *drainBarrier) join(ctx context.Context) error {
	return g.exclusively(ctx, func() error {
		if g.isMember() {
			return nil // another call joined
		}
		return g.register(ctx)
	})
}

func (g *drainBarrier) register(ctx context.Context) error {
	isDead := field("$expr", field("$lt", bson.A{"$since", field("$subtract", bson.A{serverNow, deadAfter.Milliseconds()})}))
	_, err := g.control.BulkWrite(ctx, []mongo.WriteModel{
		mongo.NewUpdateOneModel().SetFilter(field("_id", g.id)).SetUpsert(true).SetUpdate(livesNow),
		mongo.NewDeleteManyModel().SetFilter(all(field("_id", withPrefix(memberPrefix)), exists("since"), isDead)),
	}, options.BulkWrite().SetOrdered(false))
	if err != nil {
		return fmt.Errorf("registering this process for drains: %w", err)
	}
	docs, err := g.read(ctx, field("draining", true))
	if err != nil {
		return fmt.Errorf("querying draining queues: %w", err)
	}
	for _, doc := range docs {
		err = g.observe(ctx, doc)
		if err != nil {
			return err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.joined = time.Now()
	return nil
}

// leave deregisters the process, if it is a member and the condition holds.
func (g *drainBarrier) leave(ctx context.Context, condition func() bool) error {
	return g.exclusively(ctx, func() error {
		g.mu.Lock()
		leaves := !g.joined.IsZero() && condition()
		if leaves {
			g.joined = time.Time{}
		}
		g.mu.Unlock()
		if !leaves {
			return nil
		}
		if _, err := g.control.DeleteOne(ctx, field("_id", g.id)); err != nil {
			return fmt.Errorf("deregistering this process: %w", err)
		}
		return nil
	})
}

// listen is called when the change stream was opened. It reads what was missed before, or makes
// this process a member, which inserts would have to do otherwise.
func (g *drainBarrier) listen(ctx context.Context) error {
	if g.isMember() {
		return g.refresh(ctx)
	}
	return g.join(ctx)
}

// poll is called regularly. Without a change stream it reads which queues are draining, and
// deregisters the process if it has not inserted anything for a while.
func (g *drainBarrier) poll(ctx context.Context) error {
	g.mu.Lock()
	joined, isIdle := g.joined, g.isIdle()
	g.mu.Unlock()
	switch {
	case joined.IsZero():
		return nil
	case time.Since(joined) > rejoinEvery:
		return g.exclusively(ctx, func() error { return g.register(ctx) })
	case g.listens.Load():
		return nil
	}
	if isIdle {
		open, err := g.puts.open(ctx, nil)
		if err == nil && !open {
			err = g.leave(ctx, g.isIdle)
		}
		if err != nil || !g.isMember() {
			return err
		}
	}
	return g.refresh(ctx)
}

// isIdle reports whether nothing has been inserted for a while. The caller holds the lock.
func (g *drainBarrier) isIdle() bool { return g.inserts == 0 && time.Since(g.inserted) > idleAfter }

// refresh reads which queues are draining, if this process is a member. It joins again if
// another process removed this one as dead.
func (g *drainBarrier) refresh(ctx context.Context) error {
	if !g.isMember() {
		return nil
	}
	docs, err := g.read(ctx, either(field("draining", true), field("_id", g.id)))
	if err != nil {
		return fmt.Errorf("querying draining queues: %w", err)
	}
	registered := false
	for _, doc := range docs {
		if doc.ID == g.id {
			registered = true
			continue
		}
		err = g.observe(ctx, doc)
		if err != nil {
			return err
		}
	}
	if registered {
		return nil
	}
	return g.exclusively(ctx, func() error {
		if !g.isMember() {
			return nil // it has left meanwhile
		}
		return g.register(ctx)
	})
}

func (g *drainBarrier) read(ctx context.Context, filter bson.D) (docs []controlDocument, err error) {
	cursor, err := g.control.Find(ctx, filter)
	if err != nil {
		return nil, err
	}
	err = cursor.All(ctx, &docs)
	return docs, err
}

// event is called when a document of the control collection has changed; doc is nil if it
// was removed.
func (g *drainBarrier) event(ctx context.Context, id string, doc *controlDocument) error {
	switch {
	case doc != nil && strings.HasPrefix(id, controlPrefix):
		return g.observe(ctx, *doc)
	case doc == nil && id == g.id:
		return g.refresh(ctx)
	default:
		return nil
	}
}

// observe records the control document of a queue. If the queue is draining, it answers once
// all inserts have ended, and does not wait for them.
func (g *drainBarrier) observe(ctx context.Context, doc controlDocument) error {
	g.set(doc)
	if !doc.Draining || slices.Contains(doc.Answers, g.id) || g.answerLater(doc) {
		return nil
	}
	return g.answer(ctx, doc)
}

func (g *drainBarrier) answer(ctx context.Context, doc controlDocument) error {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	filter := bson.D{{Key: "_id", Value: doc.ID}, {Key: "drains", Value: doc.Drains}}
	_, err := g.control.UpdateOne(ctx, filter, field("$addToSet", field("answers", g.id)))
	if err != nil {
		return fmt.Errorf("acknowledging that queue %q is draining: %w", doc.Queue, err)
	}
	return nil
}

// answerLater answers in the background if inserts are in progress, or their transactions, and reports whether they are.
func (g *drainBarrier) answerLater(doc controlDocument) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.queue(doc.Queue)
	defer g.forget(doc.Queue)
	if q.inserts == 0 && !g.puts.holds(doc.Queue) {
		return false
	}
	if q.answering != doc.Drains {
		q.answering = doc.Drains
		// Close waits for the inserts first, which can't end while the lock is held.
		g.background(func(ctx context.Context) {
			g.answerAfterInserts(ctx, doc)
			g.mu.Lock()
			defer g.mu.Unlock()
			if q.answering == doc.Drains {
				q.answering = 0
			}
			g.forget(doc.Queue)
		})
	}
	return true
}

// answerAfterInserts waits until the inserts have ended, and answers. Until it has, it shows that
// this member lives.
func (g *drainBarrier) answerAfterInserts(ctx context.Context, doc controlDocument) {
	for ctx.Err() == nil {
		waiting, cancel := context.WithTimeout(ctx, confirmEvery)
		err := g.awaitInserts(waiting, doc.Queue)
		if err == nil {
			err = g.answer(ctx, doc)
		}
		if err == nil {
			cancel()
			return
		}
		<-waiting.Done()
		cancel()
		_, _ = g.control.UpdateOne(ctx, field("_id", g.id), livesNow) // it is repeated
	}
}

// livesNow is the update by which a member shows that it lives.
var livesNow = bson.D{{Key: "$currentDate", Value: field("since", true)}}

// set applies a control document to a queue. A document may have been read before a later one that
// was applied, so only draining is believed in any case: enter asks the server before it refuses.
func (g *drainBarrier) set(doc controlDocument) {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.queue(doc.Queue)
	defer g.forget(doc.Queue)
	if doc.Draining || doc.Drains >= q.drains {
		q.drained, q.drains = doc.Draining, max(doc.Drains, q.drains)
	}
	g.showSeen()
}

// replace applies what was just read of a queue, unless another document was applied since seen
// was returned by nextSeen. Its count may be lower if an operator has removed or restored controls.
func (g *drainBarrier) replace(doc controlDocument, seen <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.seen != seen {
		return
	}
	q := g.queue(doc.Queue)
	q.drained, q.drains = doc.Draining, doc.Drains
	g.forget(doc.Queue)
	g.showSeen()
}

// wake makes waiters read the answers again.
func (g *drainBarrier) wake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.showSeen()
}

// showSeen is called when a document was applied. The caller holds the lock.
func (g *drainBarrier) showSeen() {
	close(g.seen)
	g.seen = make(chan struct{})
}

// queue returns what is known of a queue, to be changed. The caller holds the lock, and calls forget afterwards.
func (g *drainBarrier) queue(name string) *drainState {
	q := g.queues[name]
	if q == nil {
		q = &drainState{}
		g.queues[name] = q
	}
	return q
}

// forget drops what is known of a queue if that is nothing: a process may put jobs into any number of queues. The caller
// holds the lock.
func (g *drainBarrier) forget(name string) {
	if q := g.queues[name]; q != nil && *q == (drainState{}) {
		delete(g.queues, name)
	}
}

// enter begins an insert into a queue and returns a function to call when the insert has
// ended. The error wraps amboy.ErrQueueDraining if the queue is draining. If this member
// believes that, it first asks the server.
func (g *drainBarrier) enter(ctx context.Context, queue string) (leave func(), err error) {
	for {
		if !g.isMember() {
			err = g.join(ctx)
			if err != nil {
				return nil, err
			}
		}
		seen := g.nextSeen()
		leave, isMember := g.tryEnter(queue)
		if leave != nil {
			return leave, nil
		}
		if !isMember {
			continue // it has left meanwhile
		}
		docs, err := g.read(ctx, field("_id", controlKey(queue)))
		if err != nil {
			return nil, fmt.Errorf("checking whether queue %q is draining: %w", queue, err)
		}
		if len(docs) > 0 && docs[0].Draining {
			return nil, fmt.Errorf("queue %q: %w", queue, amboy.ErrQueueDraining)
		}
		doc := controlDocument{Queue: queue}
		if len(docs) > 0 {
			doc = docs[0]
		}
		g.replace(doc, seen)
	}
}

func (g *drainBarrier) tryEnter(queue string) (leave func(), isMember bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.queue(queue)
	defer g.forget(queue)
	if q.drained || g.joined.IsZero() {
		return nil, !g.joined.IsZero()
	}
	q.inserts++
	g.inserts++
	g.inserted = time.Now()
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.inserts--
		q.inserts--
		if q.inserts == 0 && q.idle != nil {
			close(q.idle)
			q.idle = nil
		}
		g.forget(queue)
	}, true
}

// awaitInserts waits until the inserts into a queue that are in progress have ended, and their transactions.
func (g *drainBarrier) awaitInserts(ctx context.Context, queue string) error {
	g.mu.Lock()
	q := g.queue(queue)
	if q.inserts == 0 {
		g.forget(queue)
		g.mu.Unlock()
		return g.puts.await(ctx, queue)
	}
	if q.idle == nil {
		q.idle = make(chan struct{})
	}
	idle := q.idle
	g.mu.Unlock()
	select {
	case <-idle:
		return g.puts.await(ctx, queue)
	case <-ctx.Done():
		return fmt.Errorf("waiting for the inserts into queue %q to end: %w", queue, ctx.Err())
	}
}

// awaitAnswers waits until all members have answered a drain. It returns an error if a member that
// lives does not answer in time. The other silent members are removed.
func (g *drainBarrier) awaitAnswers(ctx context.Context, drained controlDocument) error {
	patience := time.NewTimer(memberTimeout)
	defer patience.Stop()
	poll := time.NewTicker(g.every)
	defer poll.Stop()
	var first map[string]time.Time
	for {
		seen := g.nextSeen()
		silent, err := g.silent(ctx, drained)
		if err != nil || len(silent) == 0 {
			return err
		}
		if first == nil {
			first = silent
		}
		select {
		case <-seen:
		case <-poll.C:
		case <-patience.C:
			return g.removeDead(ctx, drained, first)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (g *drainBarrier) nextSeen() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen
}

// removeDead removes the members that have not answered, except those that have shown that they
// live since they were first read, of which it returns an error.
func (g *drainBarrier) removeDead(ctx context.Context, drained controlDocument, first map[string]time.Time) error {
	silent, err := g.silent(ctx, drained)
	if err != nil {
		return err
	}
	var dead, alive []string
	for id, since := range silent {
		if was, known := first[id]; known && was.Equal(since) {
			dead = append(dead, id)
		} else {
			alive = append(alive, id)
		}
	}
	if len(dead) > 0 {
		_, err = g.control.DeleteMany(ctx, field("_id", field("$in", dead)))
	}
	if len(alive) > 0 {
		slices.Sort(alive)
		err = errors.Join(err, fmt.Errorf("processes are still putting jobs into the queue: %s", strings.Join(alive, ", ")))
	}
	return err
}

// silent returns the members that have not answered, and when they have last shown that they live.
func (g *drainBarrier) silent(ctx context.Context, drained controlDocument) (since map[string]time.Time, err error) {
	isMember := field("_id", primitive.Regex{Pattern: "^" + memberPrefix})
	docs, err := g.read(ctx, either(field("_id", drained.ID), isMember))
	if err != nil {
		return nil, err
	}
	answers := []string{g.id}
	since = map[string]time.Time{}
	for _, doc := range docs {
		if doc.ID == drained.ID {
			if doc.Drains != drained.Drains {
				return nil, nil // another process has changed it since and waits itself
			}
			answers = append(answers, doc.Answers...)
			continue
		}
		since[doc.ID] = doc.Since
	}
	for _, id := range answers {
		delete(since, id)
	}
	return since, nil
}
