package core

import (
	"slices"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// A store needs hardly more time to claim many jobs than to claim one. So while the jobs of a
// queue are short, the core claims ahead: it claims more jobs than workers wait, and gives each of
// the others to the next worker that comes. When a third of them are left it claims again, so that no
// worker waits for a claim.
const (
	// minAhead and maxAhead bound the time for which a claim gets jobs, at the rate at which they have
	// ended lately: three times as long as a claim takes, so that the last third lasts until the next answer.
	minAhead = 20 * time.Millisecond
	maxAhead = 100 * time.Millisecond
	// MaxAhead and aheadPerWorker bound the runs that wait for a worker: if the process dies,
	// their jobs wait until the leases end.
	MaxAhead       = 256
	aheadPerWorker = 24
	// ratedPause is how long a queue that waited for its rate claims nothing ahead: what is
	// handed back has used up its tokens.
	ratedPause = time.Minute
)

// ahead holds the runs that were claimed ahead, and decides how many to claim.
type ahead struct {
	runs []*Run // in the order in which they start

	// line is the line of the last claim, if that was for one line only and got all that it wanted.
	line *Line
	// answered is when it was answered, and ended is Line.ended at that time.
	answered time.Duration
	ended    int
	// ends is how many of its runs ended in the time between its answer and the one before.
	ends int
	in   time.Duration
	// span is the time for which a claim gets jobs.
	span time.Duration
	// most is how many runs of the line may wait for a worker.
	most int
}

// patience is how long a run waits for a worker. Then the jobs have become longer, and what waits is
// handed back, so that other processes can run it.
func (a *ahead) patience() time.Duration { return max(a.span, minAhead) * 5 / 2 }

// wantedAhead returns how many jobs a claim for a line requests beyond its waiting workers.
func (c *Core) wantedAhead(l *Line) int {
	if !c.mayClaimAhead(l) {
		return 0
	}
	return max(0, c.ahead.most-l.ahead-len(l.waiting))
}

// claimsAhead reports whether so few runs of a line wait for a worker that more are claimed although
// no worker waits.
func (c *Core) claimsAhead() bool {
	l := c.ahead.line
	return l != nil && l.isActive() && l.mayHave && l.ahead < (c.ahead.most+2)/3 && c.mayClaimAhead(l)
}

func (c *Core) mayClaimAhead(l *Line) bool {
	return c.config.ClaimAhead && c.ahead.line == l && c.now.Mono < c.ahead.answered+c.ahead.patience() && !c.ends.doubt &&
		(!l.waitedForRate || c.now.Mono >= l.waitedAt+ratedPause)
}

// noteClaim decides how many runs may wait for a worker until the next claim is answered: as many as
// end in the span, by the number that ended since the answer before the last. If jobs were interrupted,
// one of them may be what ends its processes. Then as few others as possible are to be interrupted with it.
func (c *Core) noteClaim(call *call, records []*driver.Record) {
	if slices.ContainsFunc(records, func(r *driver.Record) bool { return r.Status.Interruptions.Total() > 0 }) {
		c.handBackAhead(nil)
		return
	}
	last := c.ahead
	c.ahead = ahead{runs: last.runs}
	if len(call.asks) != 1 || call.asks[0].got < call.asks[0].want || call.givenUp {
		return
	}
	a := call.asks[0]
	c.ahead.line, c.ahead.answered, c.ahead.ended = a.line, c.now.Mono, a.line.ended
	c.ahead.span = min(max(3*(c.now.Mono-call.sent), minAhead), maxAhead)
	if last.line == a.line {
		c.ahead.ends, c.ahead.in = a.line.ended-last.ended, max(c.now.Mono-last.answered, time.Microsecond)
		soon := time.Duration(c.ahead.ends+last.ends) * c.ahead.span / (c.ahead.in + last.in)
		c.ahead.most = min(int(soon), 2*(a.got+call.left), aheadPerWorker*a.line.workers, MaxAhead)
	}
}

// mayKeep reports whether a claimed run may wait for a worker. A suspect must not, nor a job that a
// single interruption would park.
func (c *Core) mayKeep(call *call, l *Line, r *Run) bool {
	return call.keep > l.ahead && call.asks[0].line == l && c.alone == nil && !c.closing && !r.isSuspect() && l.InterruptionLimit(r.Record) != 1
}

// keep makes a claimed run wait for a worker.
func (c *Core) keep(l *Line, r *Run) {
	l.ahead++
	r.aheadOf, r.aheadUntil = l, c.now.Mono+c.ahead.patience()
	c.ahead.runs = append(c.ahead.runs, r)
	c.timers.set(aheadTimer, r.aheadUntil)
}

// dropAhead makes a run no longer wait for a worker. It reports whether it did wait.
func (c *Core) dropAhead(r *Run) (waited bool) {
	if r.aheadOf == nil {
		return false
	}
	r.aheadOf.ahead--
	r.aheadOf = nil
	i := slices.Index(c.ahead.runs, r)
	c.ahead.runs = slices.Delete(c.ahead.runs, i, i+1)
	return true
}

// serveAhead gives waiting runs to the workers that have come. No lease of a waiting run is over or
// lost, because cancel hands such runs back.
func (c *Core) serveAhead() {
	for i := 0; i < len(c.ahead.runs); {
		r := c.ahead.runs[i]
		l := r.aheadOf
		if !c.canStart(l) {
			i++
			continue
		}
		c.dropAhead(r)
		switch {
		case c.isUnknown(r.Record):
			c.finish(r, End{HandBack: &driver.HandBack{}})
		case c.isExpired(r.Record):
			c.do(Expire{r})
		default:
			c.start(l, r)
		}
	}
}

// controlled hands back what was claimed ahead under the previous settings of a queue, so that no
// job starts after the queue was paused.
func (c *Core) controlled(l *Line) {
	c.handBackAhead(l)
	c.changedIn(l)
}

// handBackAhead hands back the runs that wait for a worker of a line, or of any line if it is
// nil.
func (c *Core) handBackAhead(l *Line) {
	c.ahead.line = nil
	for _, r := range slices.Clone(c.ahead.runs) { // those of a slow claim may wait longer than later ones
		if (l == nil || r.aheadOf == l) && c.dropAhead(r) {
			c.finish(r, End{HandBack: &driver.HandBack{}})
		}
	}
}

// endPatience hands back the runs that have waited too long for a worker.
func (c *Core) endPatience() {
	for _, r := range slices.Clone(c.ahead.runs) {
		if r.aheadUntil > c.now.Mono {
			c.timers.set(aheadTimer, r.aheadUntil)
			continue
		}
		c.ahead.line = nil
		c.dropAhead(r)
		c.finish(r, End{HandBack: &driver.HandBack{}})
	}
}
