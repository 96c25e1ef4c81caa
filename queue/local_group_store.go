package queue

import (
	"context"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/internal/presence"
	"github.com/mongodb/amboy/queue/driver"
)

// store returns a store for the open queues of a local group. Each queue has a store of
// its own.
func (g *localGroup) store() *Store {
	return &Store{
		admin:        g.admin(),
		now:          time.Now,
		complete:     g.markComplete,
		keepCanceled: g.keepCanceled,
		open:         g.open,
		openNew:      g.openNew,
		refresh:      func(ctx context.Context) error { return g.announcer.refresh(ctx, g) },
		measure:      g.measure,
		setWorkers:   g.setWorkers,
	}
}

func (g *localGroup) open(name string) (amboy.Queue, bool) {
	q, ok := g.OpenQueues()[name]
	return q, ok
}

// markComplete implements Store.MarkComplete.
func (g *localGroup) markComplete(ctx context.Context, records []*driver.Record) []error {
	open := g.OpenQueues()
	errs := make([]error, len(records))
	for i, r := range records {
		s, ok := StoreOf(open[r.Group])
		if !ok {
			errs[i] = amboy.NewJobNotFoundErrorf("queue %q is not open", r.Group)
			continue
		}
		inner := *r
		inner.Group = s.queues[0]
		inner.Name = driver.RecordName(inner.Group, r.JobID(), r.RetryInfo)
		errs[i] = s.complete(ctx, []*driver.Record{&inner})[0]
	}
	return errs
}

// keepCanceled implements Store.KeepCanceled.
func (g *localGroup) keepCanceled(r *driver.Record) time.Duration {
	q, _ := g.open(r.Group)
	s, ok := StoreOf(q)
	if !ok {
		return DefaultKeepOthers
	}
	inner := *r
	inner.Group = s.queues[0]
	return s.KeepCanceled(&inner)
}

func (g *localGroup) setWorkers(name string, n int) error {
	q, ok := g.open(name)
	if !ok {
		return nil
	}
	s, ok := StoreOf(q)
	if !ok {
		return nil
	}
	return s.setWorkers(s.queues[0], n)
}

// applyWorkerCount applies the number of workers that was stored in the notes of the
// group before the queue was opened.
func (g *localGroup) applyWorkerCount(name string) {
	key := presence.WorkersKey(name)
	notes, err := g.notes.Notes(driver.NoteRequest{Kind: presence.WorkersKind, From: key, To: key + "\x00", Limit: 1})
	for _, note := range notes {
		var n int
		_, n, err = presence.WorkersOf(note)
		if err == nil {
			err = g.setWorkers(name, n)
		}
	}
	if err != nil {
		logging.Error(g.ctx, message.Fields{
			"message": "could not change the number of workers",
			"queue":   name,
			"error":   err.Error(),
		})
	}
}
