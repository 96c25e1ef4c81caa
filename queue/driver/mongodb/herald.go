package mongodb

import (
	"context"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
)

// unclaimed is how long a document that waited for a scope is left to this process,
// before the others are told that it is ready.
const unclaimed = 50 * time.Millisecond

// herald tells other processes of documents that are ready because of what this
// one did, where it does not claim them itself in a while. Whoever ends a job of a
// scope mostly has a worker for the next; were all told of it, they would all want
// it, and all but one in vain.
type herald struct {
	signal chan struct{}
	mu     sync.Mutex
	woken  map[key]woken
}

// woken is a document that is ready.
type woken struct {
	id  string
	rev int64
	at  time.Time
}

// add has others told of a document, unless it is claimed before.
func (h *herald) add(doc *document) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.woken == nil {
		h.woken = map[key]woken{}
	}
	h.woken[key{doc.Group, doc.Name}] = woken{id: doc.id, rev: doc.Rev, at: time.Now()}
	select {
	case h.signal <- struct{}{}:
	default: // it is awake
	}
}

// claimed is called for each document that this process claims.
func (h *herald) claimed(doc *document) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.woken, key{doc.Group, doc.Name})
}

// take returns the documents that nobody here has claimed since a time, and tells
// whether there are others.
func (h *herald) take(since time.Time) (due []woken, more bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for k, w := range h.woken {
		if !w.at.After(since) {
			due = append(due, w)
			delete(h.woken, k)
		}
	}
	return due, len(h.woken) > 0
}

// announce tells others, until ctx ends; then of all that is left.
func (d *Driver) announce(ctx context.Context) {
	for {
		select {
		case <-d.herald.signal:
		case <-ctx.Done():
			return
		}
		for more := true; more; {
			if !sleep(ctx, unclaimed) {
				return
			}
			var due []woken
			due, more = d.herald.take(time.Now().Add(-unclaimed))
			d.tellOthers(ctx, due)
		}
	}
}

// tellOthers writes to documents, which have not changed since, what the change
// streams of others do not leave out.
func (d *Driver) tellOthers(ctx context.Context, due []woken) {
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
	if err != nil {
		d.leaveToSweep(ctx, "telling other processes who is ready", err)
	}
}
