package core

import (
	"context"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// Run is a lease of a job, from the claim until what became of it is written.
type Run struct {
	Record *driver.Record
	Lease  driver.Lease

	// Job and CancelContext are the shell's own: the job that the record is, and what
	// ends the context that it runs under.
	Job           amboy.Job
	CancelContext context.CancelCauseFunc
	// Then is the shell's own, for what is to follow on Done.
	Then func(error)

	line  *Line // which counts it among its runs, until it returns
	place int   // in the list of leases that are held, counted from 1; 0 where it is not
	fence time.Duration
	cause error
	lost  bool // the store says that another has the lease
	// transacted is true if a transaction of the job may have written its end. The lease is
	// not renewed any more: that would wait for the transaction, and all others with it.
	transacted bool
	isStuck    bool
	suspectOf  *Line // that of a suspect which waits until it is alone

	end       End
	finishing bool
	done      bool
	uncertain bool  // a call failed that may have written its end
	failure   error // of the last call that was to write it
	alone     bool  // its end is written by a call of its own
	probed    bool  // it failed alone, while the store was in doubt
	pause     time.Duration
	due       time.Duration // of the next try, where it is alone
}

// End is how a run ends: with a record that replaces what is stored, or with a hand-back.
// With neither, nothing is written.
type End struct {
	Record   *driver.Record
	HandBack *driver.HandBack
	// Next is the next attempt, which replaces the job with the record; nil for none.
	Next *driver.Record
	// Unknown says that this process does not know the record's kind, so that claims are
	// to leave it to others from now on.
	Unknown bool
}

// Cause is why the context of the run has ended, or is to end; nil where it is not.
func (r *Run) Cause() error { return r.cause }

// Transacted reports whether a transaction of its job may have ended it.
func (r *Run) Transacted() bool { return r.transacted }

// Taken reports whether the store has said that the lease of the run is another's.
func (r *Run) Taken() bool { return r.lost }

// End is how it ends, from Finished on.
func (r *Run) End() End { return r.end }

// start gives a run to a worker of its line.
func (c *Core) start(l *Line, r *Run) {
	r.line = l
	l.out++
	c.out++
	c.lastServed++
	l.served = c.lastServed
	c.order.MoveToBack(l.place)
	c.do(Start{Worker: c.next(l), Run: r})
}

// stuck lets another run begin in the place of one that does not return, unless as many
// are stuck already as may run at once.
func (c *Core) stuck(r *Run) {
	c.endAlone(r)
	if r.line == nil || r.finishing || c.config.MaxRunning > 0 && c.stuckRuns >= c.config.MaxRunning {
		return
	}
	r.isStuck = true
	c.stuckRuns++
	c.countOut(r)
}

// returned counts a run out that has ended, or will not begin.
func (c *Core) returned(r *Run) {
	if r.isStuck {
		r.isStuck = false
		c.stuckRuns--
	}
	c.countOut(r)
	c.endAlone(r)
}

// countOut makes room for another run.
func (c *Core) countOut(r *Run) {
	if r.line == nil {
		return // it was never given to a worker, or is stuck
	}
	r.line.out--
	c.candidates.arrange(r.line)
	c.out--
	r.line = nil
	if c.config.MaxRunning > 0 {
		c.claimIfUseful() // there is room again
	}
}
