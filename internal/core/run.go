package core

import (
	"context"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// Run is a lease of a job, from its claim until its end is written.
type Run struct {
	Record *driver.Record
	Lease  driver.Lease

	// Job and CancelContext are the shell's own: the decoded job, and the function that
	// ends its context.
	Job           amboy.Job
	CancelContext context.CancelCauseFunc
	// Then is the shell's own: what follows Done.
	Then func(error)
	// Canceled is the shell's own: the job was to be canceled when its run ended.
	Canceled bool

	line  *Line // the line that counts this run, until it returns
	place int   // in Core.held, counted from 1; 0 if the lease is not held
	fence time.Duration
	cause error
	lost  bool // the store reports another owner of the lease
	// transacted is true if a transaction of the job may have written its end. The lease is
	// no longer renewed: the renewal would wait for the transaction, and hold up all others.
	transacted bool
	isStuck    bool
	suspectOf  *Line // the line of a suspect that waits until it is alone
	// aheadOf is the line of a run that waits for a worker, and aheadUntil when it is handed back.
	aheadOf    *Line
	aheadUntil time.Duration

	end       End
	finishing bool
	done      bool
	uncertain bool  // a call that may have written its end failed
	failure   error // of the last call that was to write the end
	alone     bool  // its end is written by a call of its own
	blocked   bool  // the last try to write its end was blocked by another client's transaction
	probed    bool  // its end failed alone while the store was in doubt
	pause     time.Duration
	due       time.Duration // of the next try, if alone or blocked
}

// End is how a run ends: with a record that replaces the stored one, or with a hand-back.
// If both are nil, nothing is written.
type End struct {
	Record   *driver.Record
	HandBack *driver.HandBack
	// Next is the next attempt, which is stored together with Record; nil for none.
	Next *driver.Record
	// Unknown is true if this process does not know the record's kind, so that later claims
	// leave it to other processes.
	Unknown bool
}

// Cause returns why the run's context has ended, or is to end; nil if neither.
func (r *Run) Cause() error { return r.cause }

// Transacted reports whether a transaction of its job may have ended it.
func (r *Run) Transacted() bool { return r.transacted }

// Taken reports whether the store gave the lease of the run to another owner, or an operator
// ended its job.
func (r *Run) Taken() bool { return r.lost }

// End returns how the run ends. It is set from Finished on.
func (r *Run) End() End { return r.end }

// start gives a run to a worker of its line.
func (c *Core) start(l *Line, r *Run) {
	r.line = l
	l.out++
	c.out++
	c.served++
	l.served = c.served
	c.do(Start{Worker: c.next(l), Run: r})
}

// stuck lets another run start in place of one that does not return, unless the number of
// stuck runs has reached MaxRunning.
func (c *Core) stuck(r *Run) {
	c.endAlone(r)
	if r.line == nil || r.finishing || c.config.MaxRunning > 0 && c.stuckRuns >= c.config.MaxRunning {
		return
	}
	r.isStuck = true
	c.stuckRuns++
	c.countOut(r)
}

// returned uncounts a run that has ended, or will not start.
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
		return // no worker got it, or it is stuck
	}
	r.line.out--
	r.line.ended++
	c.candidates.arrange(r.line)
	c.out--
	r.line = nil
	if c.config.MaxRunning > 0 {
		c.serveAhead() // there is room again
		c.claimIfUseful()
	}
}
