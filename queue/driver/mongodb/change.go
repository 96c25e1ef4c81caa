package mongodb

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy/queue/driver"
)

// errContended is the error of a change that conflicted with other writers too often.
var errContended = errors.New("other processes kept changing the record; this call did not change it")

// errGone is the error of a change of a document that does not exist.
var errGone = errors.New("no such record")

// errBlocked is the error of a change that waits for an open transaction of another client.
var errBlocked = driver.ErrBlocked

// errMoved is the error of a change of a document whose state another writer has changed.
var errMoved = errors.New("the record's state has changed")

// change is a change of one document, computed by a step. The step runs in this process.
// What it changed is written only if the document is still as it was read; otherwise the
// document is read again and the step is repeated.
type change struct {
	queue, name string
	// before is the document as last read. If it is nil, it is read without its body.
	before *document
	// step changes the document. It may be called again with a newer version. An error
	// ends the change and becomes its err.
	step func(doc *document) error
	// refused, if set, changes a document in another way after a unique index refused
	// what step made of it. If it is nil, the refusal becomes the change's err.
	refused func(doc *document, r *refusal) error
	// made, if set, reports whether a document shows the change, although it was changed
	// again since.
	made func(doc *document) bool
	// quiet is true for a change that makes nothing claimable and that no caller waits
	// for.
	quiet bool
	// ends is true for a completion. If it ends the document for good, subscribers are
	// notified that nothing new is claimable, unless a queue is limited.
	ends bool
	// fences is true for a change that gives the document a new revision even if the step
	// changes nothing, so that no earlier write of it lands any more.
	fences bool
	// timely is true for a change that is made only if the lease was not extended since
	// the document was read.
	timely bool
	// leaseTime is the length of the lease that the change grants, if any, by the
	// server's clock, from when the server makes the change.
	leaseTime time.Duration
	// shares is true for a claim, an admission, a completion and the two changes of a retry, many
	// of which one statement may make (see shared).
	shares bool

	// after is the document as the change left it, or as read if there was nothing to
	// change. It is nil if the change was not made.
	after *document
	// err is why the change was not made.
	err error

	state   state
	tries   []*try
	refusal *refusal // by which the last try was rejected
	blocked bool     // the last try took too long on its own
	alone   bool     // send it alone, since a statement for several changes was rejected
	shown   error    // the step's error for a document that already shows the change
	written bool     // the change was stored
	size    int      // of the document that was sent, as far as known
}

// state is how far a change is:
//
//	           step           answered, and matched
//	unread ──▶ known ──▶ sent ──────────────────────▶ ended
//	  ▲  │      ▲  │       │                           ▲ ▲
//	  │  │      │  └───────┼── nothing to change, ─────┘ │
//	  │  │      │          │   or refused by the step    │
//	  │  │      └──────────┤ refused by an index         │
//	  │  │                 │                             │
//	  ├──┼─────────────────┘ not matched, or no answer   │
//	  │  └──▶ found ─────────────────────────────────────┘
//	  └─────────┘            the majority has it
//
// A try whose answer was lost may still be stored: late, by a server that had received it,
// or not for good, by a primary that others have replaced. So all tries are remembered, and
// one that is found is not taken for done before the majority has it.
type state int

const (
	// unread means that the document must be read, either because it is not known or to
	// find out whether a try was stored.
	unread state = iota
	// known means that before is the document as last read.
	known
	// sent means that the last try is on its way.
	sent
	// found means that a read showed a try whose answer was lost, or the change as an earlier
	// call had made it. after is the document.
	found
	// ended means that the change was made, or that err says why not.
	ended
)

// try is a write that was sent for a change.
type try struct {
	doc *document // as it would be stored
	// answered is true if the server answered, so that the majority has what is stored.
	answered bool
}

// landed reports whether the change was stored.
func (c *change) landed() bool { return c.written }

// end ends a change that was not made.
func (c *change) end(err error) { c.state, c.err = ended, err }

// land ends a change that was made.
func (c *change) land(doc *document) {
	doc.reguard()
	c.state, c.after, c.written = ended, doc, true
}

// lastTry returns the try that was sent last.
func (c *change) lastTry() *try { return c.tries[len(c.tries)-1] }

// dropTry forgets the last try, which the server did not store.
func (c *change) dropTry() { c.tries = c.tries[:len(c.tries)-1] }

// doubtful returns the tries without an answer of a change that did not land. They may be
// stored all the same.
func (c *change) doubtful() []*try {
	if c.written {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(c.tries), func(t *try) bool { return t.answered })
}

// observe decides how a change continues after its document was read.
func (c *change) observe(current *document) {
	if current == nil {
		c.end(errGone)
		return
	}
	own := slices.IndexFunc(c.tries, func(t *try) bool { return t.doc.Rev == current.Rev && current.Rev != 0 })
	switch {
	case own >= 0 && c.tries[own].answered:
		c.land(c.tries[own].doc)
	case own >= 0:
		c.state, c.after = found, c.tries[own].doc
		c.after.reguard()
	case len(c.tries) > 0 && c.made != nil && c.made(current):
		c.state, c.after = found, current
	case c.blocked:
		c.end(errBlocked)
	default:
		c.before, c.state = current, known
	}
}

// key identifies a record.
type key struct{ queue, name string }

// try records that a change is sent.
func (c *change) try(next *document, rev int64) {
	next.Rev = rev
	doc := next.withoutBody()
	if next.Job.IsZero() {
		doc.body = c.before.body
	}
	c.tries = append(c.tries, &try{doc: doc})
	c.state = sent
}

// run computes the change of a document: by the step or, after a unique index has refused that, by refused.
func (c *change) run(next *document) error {
	if c.refusal == nil {
		return c.step(next)
	}
	if c.refused == nil {
		return c.refusal.errorOf(next)
	}
	return c.refused(next, c.refusal)
}

// reject records the server's error for the last try.
func (c *change) reject(e mongo.WriteError) {
	doc := c.lastTry().doc
	c.dropTry()
	c.refusal = refusalOf(e)
	switch {
	case c.refusal != nil:
		c.state = known
	case isTooLarge(e):
		c.end(tooLarge(doc, c.size))
	case isConflict(e):
		c.state = known
	case isTransient(e):
		// A server that steps down rejects the statements that it has accepted but not begun.
		c.state = unread
	default:
		c.end(fmt.Errorf("writing record %q: %w", c.name, e))
	}
}
