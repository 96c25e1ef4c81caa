package mongodb

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
)

// A write waits in the server if it meets a document, or a key of a unique index, that an
// open transaction of another client has written. The driver bounds each such wait (see
// send), and then leaves the documents and scopes alone for a while.

// avoidFor is how long a document or scope is left alone.
const avoidFor = 30 * time.Second

// avoided holds the documents and scopes that open transactions are in the way of, until
// when they are left alone.
type avoided struct {
	mu     sync.Mutex
	docs   map[key]time.Duration // by the driver's clock
	scopes map[key]time.Duration
}

// add adds a document and the scopes that were to be taken with it.
func (a *avoided) add(doc key, scopes []string, until time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.docs == nil {
		a.docs, a.scopes = map[key]time.Duration{}, map[key]time.Duration{}
	}
	a.docs[doc] = until
	for _, scope := range scopes {
		a.scopes[key{doc.queue, scope}] = until
	}
}

// at returns what is left alone at a time.
func (a *avoided) at(now time.Duration) (docs, scopes map[key]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return remaining(a.docs, now), remaining(a.scopes, now)
}

// remaining removes what is over, and returns the keys of the rest.
func remaining(all map[key]time.Duration, now time.Duration) map[key]bool {
	left := make(map[key]bool, len(all))
	for k, until := range all {
		if until <= now {
			delete(all, k)
			continue
		}
		left[k] = true
	}
	return left
}

// any reports whether anything is left alone.
func (a *avoided) any() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.docs)+len(a.scopes) > 0
}

// clear ends the waits: a transaction was committed, perhaps that one.
func (a *avoided) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.docs)
	clear(a.scopes)
}

// avoid leaves the documents of blocked changes alone, and the scopes that they want. The
// sweep makes the waiters of such a scope ready later.
func (d *Driver) avoid(ctx context.Context, changes []*change) {
	until := d.elapsed() + avoidFor
	for _, c := range changes {
		if !errors.Is(c.err, errBlocked) {
			continue
		}
		d.avoided.add(key{c.queue, c.name}, c.before.competing(), until)
		d.sweeper.watch()
		logging.Warning(ctx, message.Fields{
			"message":    "an open transaction of another client is in the way of a job; it is left alone for a while",
			"collection": d.jobs.Name(),
			"queue":      c.queue,
			"record":     c.name,
			"for":        avoidFor.String(),
		})
	}
}
