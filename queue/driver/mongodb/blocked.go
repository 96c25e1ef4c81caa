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
// send), and then leaves the documents and scopes alone for a while. A server that is slow
// looks the same. So the first pause is short, and each further one is twice as long.

const (
	// firstPause is how long a document or scope is left alone at first.
	firstPause = time.Second
	// longestPause is the maximum length of a pause. The length of a pause is remembered for as
	// long after its end.
	longestPause = 30 * time.Second
)

// avoided holds the documents and scopes that open transactions may be in the way of, until
// when they are left alone.
type avoided struct {
	mu     sync.Mutex
	docs   map[key]avoidance
	scopes map[key]avoidance
}

// avoidance is the last pause of a document or scope.
type avoidance struct {
	until  time.Duration // by the driver's clock
	length time.Duration
}

// next returns the length of the next pause.
func (p avoidance) next(now time.Duration) time.Duration {
	switch {
	case p.length == 0 || p.isForgotten(now):
		return firstPause
	case now < p.until:
		return p.length // a call that began before the pause was blocked too
	default:
		return min(2*p.length, longestPause)
	}
}

func (p avoidance) isForgotten(now time.Duration) bool { return now >= p.until+longestPause }

// add begins a pause of a document and of the scopes that were to be taken with it, and returns
// its length.
func (a *avoided) add(doc key, scopes []string, now time.Duration) (length time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.docs == nil {
		a.docs, a.scopes = map[key]avoidance{}, map[key]avoidance{}
	}
	length = a.docs[doc].next(now)
	for _, scope := range scopes {
		length = max(length, a.scopes[key{doc.queue, scope}].next(now))
	}
	pause := avoidance{now + length, length}
	a.docs[doc] = pause
	for _, scope := range scopes {
		a.scopes[key{doc.queue, scope}] = pause
	}
	return length
}

// forget ends the pauses of a document that was changed, and of the scopes that it holds now.
func (a *avoided) forget(doc *document) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.docs, key{doc.Group, doc.Name})
	if len(a.scopes) == 0 {
		return
	}
	for _, held := range doc.Scopes {
		delete(a.scopes, key{doc.Group, keyOf(held)})
	}
}

// at returns what is left alone at a time.
func (a *avoided) at(now time.Duration) (docs, scopes map[key]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return paused(a.docs, now), paused(a.scopes, now)
}

// paused removes what is forgotten, and returns the keys of what is left alone.
func paused(all map[key]avoidance, now time.Duration) map[key]bool {
	left := make(map[key]bool, len(all))
	for k, p := range all {
		switch {
		case now < p.until:
			left[k] = true
		case p.isForgotten(now):
			delete(all, k)
		}
	}
	return left
}

// any reports whether anything is left alone.
func (a *avoided) any(now time.Duration) bool {
	docs, scopes := a.at(now)
	return len(docs)+len(scopes) > 0
}

// remembers reports whether a document is left alone, or was lately.
func (a *avoided) remembers(doc key, now time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, known := a.docs[doc]
	return known && !p.isForgotten(now)
}

// nextEnd returns when the next pause of a document ends; false if none is left alone.
func (a *avoided) nextEnd(now time.Duration) (at time.Duration, some bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.docs {
		if now < p.until && (!some || p.until < at) {
			at, some = p.until, true
		}
	}
	return at, some
}

// end ends all pauses: a transaction was committed, perhaps the one that is in the way.
func (a *avoided) end(now time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, all := range []map[key]avoidance{a.docs, a.scopes} {
		for k, p := range all {
			all[k] = avoidance{min(p.until, now), p.length}
		}
	}
}

// avoid leaves the documents of blocked changes alone, and the scopes that they want. The
// sweep makes the waiters of such a scope ready later.
func (d *Driver) avoid(ctx context.Context, changes []*change) {
	now := d.elapsed()
	for _, c := range changes {
		if c.landed() {
			d.avoided.forget(c.after)
		}
		if !errors.Is(c.err, errBlocked) {
			continue
		}
		length := d.avoided.add(key{c.queue, c.name}, c.before.competing(), now)
		d.sweeper.watch()
		logging.Warning(ctx, message.Fields{
			"message":    "a write of a job got no answer in time: an open transaction of another client is in its way, or the server is slow; the job is left alone for a while",
			"collection": d.jobs.Name(),
			"queue":      c.queue,
			"record":     c.name,
			"for":        length.String(),
		})
	}
}
