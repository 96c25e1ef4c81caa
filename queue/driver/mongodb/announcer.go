package mongodb

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy/internal/sleep"
	"github.com/mongodb/amboy/queue/driver"
)

// unclaimed is how long a document that became ready through a freed scope is left to
// this process before other processes are notified.
const unclaimed = 50 * time.Millisecond

// announcer notifies other processes of documents that this process made ready and does not
// claim itself within a while. A process that ends a job of a scope usually has a worker
// for the next one. If all processes were notified at once, all would try to claim it and
// all but one would fail.
type announcer struct {
	signal  chan struct{}
	mu      sync.Mutex
	readied map[key]readied
}

// readied is a document that became ready.
type readied struct {
	id  string
	rev int64
	at  time.Time
}

// add schedules the notification of a document, unless it is claimed before.
func (a *announcer) add(doc *document) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.readied == nil {
		a.readied = map[key]readied{}
	}
	a.readied[key{doc.Group, doc.Name}] = readied{id: doc.id, rev: doc.Rev, at: time.Now()}
	select {
	case a.signal <- struct{}{}:
	default: // it is already signaled
	}
}

// claimed is called for each document that this process claims.
func (a *announcer) claimed(doc *document) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.readied, key{doc.Group, doc.Name})
}

// take returns the documents that became ready by a time and that this process has not
// claimed. It reports whether there are more.
func (a *announcer) take(since time.Time) (due []readied, more bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for k, r := range a.readied {
		if !r.at.After(since) {
			due = append(due, r)
			delete(a.readied, k)
		}
	}
	return due, len(a.readied) > 0
}

// announce notifies other processes until ctx ends.
func (d *Driver) announce(ctx context.Context) {
	for {
		select {
		case <-d.announcer.signal:
		case <-ctx.Done():
			return
		}
		for more := true; more; {
			if sleep.For(ctx, unclaimed) != nil {
				return
			}
			var due []readied
			due, more = d.announcer.take(time.Now().Add(-unclaimed))
			bounded, cancel := context.WithTimeout(ctx, answerTime)
			d.announceReady(bounded, due)
			cancel()
		}
	}
}

// announceReady writes documents that have not changed since, with a revision that the
// change streams of other processes do not filter out.
func (d *Driver) announceReady(ctx context.Context, due []readied) {
	if len(due) == 0 {
		return
	}
	models := make([]mongo.WriteModel, len(due))
	for i, w := range due {
		models[i] = mongo.NewUpdateOneModel().
			SetFilter(bson.D{{Key: "_id", Value: w.id}, {Key: "rev", Value: w.rev}}).
			SetUpdate(field("$set", field("rev", d.revs.next())))
	}
	_, err := d.jobs.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	d.tellPeers(driver.Anywhere)
	if err != nil {
		d.leaveToSweep(ctx, "notifying other processes of ready jobs", err)
	}
}

// cancelsKey is the _id of the control document that changes with each request to cancel what
// runs, because busy processes hear of no changes of jobs.
const cancelsKey = "cancels"

// announceCancels makes the processes that run jobs ask which of them are to be canceled.
func (d *Driver) announceCancels(ctx context.Context) error {
	if !d.isReplica {
		return nil // they ask from time to time
	}
	err := attempts(ctx, func() error {
		_, failure := d.control.UpdateOne(ctx, field("_id", cancelsKey), field("$inc", field("requests", 1)), options.Update().SetUpsert(true))
		return failure
	}, mongo.IsDuplicateKeyError) // if two make the document
	if err != nil {
		return fmt.Errorf("notifying the processes that run the canceled jobs: %w", err)
	}
	return nil
}
