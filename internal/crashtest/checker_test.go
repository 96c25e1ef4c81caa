package crashtest_test

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/amboy"
)

// rule is a promise of a queue, named by its violation.
type rule string

const (
	// lost: each job whose Put succeeded exists and ends as planned.
	lost     rule = "an accepted job was lost"
	wrongEnd rule = "a job ended in a way that was not planned"
	// notPut: a Put fails only if an enqueue scope is held or the queue is closed, and
	// the job then never runs.
	notPut     rule = "a job was not accepted"
	ranRefused rule = "a refused job ran"
	// runsAgain: no lease is taken on an attempt that ended.
	runsAgain rule = "an attempt ran again after it had ended"
	// twoHolders: if two runs are of one job, or of jobs that share a scope, then one has
	// ended, its process is dead, or its lease has run out, when the other begins.
	twoHolders rule = "two live runs held the same job or scope"
	// enqueueScope: a job that took a scope when it was put holds it until it ends.
	enqueueScope rule = "a scope taken by a Put was given away"
	// tooEarly: a job begins after those that it depends on have ended.
	tooEarly rule = "a job began before its dependency had ended"
	// attempts: an attempt follows a failed one, and nothing else uses up an attempt.
	attempts rule = "an attempt was used up"
	// noEnd: a run ends, unless its process is killed.
	noEnd rule = "a run had no end"
)

// violation is one violation of a promise.
type violation struct {
	rule   rule
	job    string
	detail string
}

func (v violation) String() string { return fmt.Sprintf("%s: %s: %s", v.job, v.rule, v.detail) }

// history is all that is known about a test run.
type history struct {
	plan *plan
	// lease is the lock timeout of the queues.
	lease time.Duration
	// events are in the order of time.
	events []event
	// deaths are the times at which processes were killed. They lived at least until
	// then.
	deaths map[string]time.Time
	// stored is what the store returns for the jobs at the end. Jobs that it does not
	// know are missing.
	stored map[string]ending
}

// run is one run of an attempt.
type run struct {
	event // the beginning
	// until is when it ended, or its process was killed.
	until   time.Time
	outcome outcome // empty if the process was killed
	// leaseUntil is when its last known lease runs out.
	leaseUntil time.Time
}

func (r *run) String() string {
	return fmt.Sprintf("attempt %d, lease %d, process %s, %s to %s",
		r.Attempt, r.Lease, r.Process, clock(r.At), clock(r.until))
}

func clock(t time.Time) string { return t.Format("15:04:05.000000") }

// checker finds violations in a history.
type checker struct {
	*history
	accepted map[string]event
	refused  map[string]event
	// runs are the runs of each job, in the order in which they began.
	runs map[string][]*run
	// completed are the first ends of attempts that were acknowledged.
	completed  map[attempt]event
	violations []violation
}

// check returns the violations in a history.
func check(h *history) []violation {
	c := newChecker(h)
	c.checkLedger()
	c.checkRunsAgain()
	c.checkHolders()
	c.checkEnqueueScopes()
	c.checkEdges()
	c.checkAttempts()
	return c.violations
}

func newChecker(h *history) *checker {
	c := &checker{
		history:   h,
		accepted:  map[string]event{},
		refused:   map[string]event{},
		runs:      map[string][]*run{},
		completed: map[attempt]event{},
	}
	type key struct {
		attempt
		lease   int
		process string
	}
	runs := map[key]*run{}
	for _, e := range h.events {
		k := key{attempt{e.Job, e.Attempt}, e.Lease, e.Process}
		switch e.Kind {
		case accepted:
			c.accepted[e.Job] = e
		case refused:
			c.refused[e.Job] = e
		case began:
			r := &run{event: e, until: h.deaths[e.Process], leaseUntil: e.Claimed.Add(h.lease)}
			runs[k] = r
			c.runs[e.Job] = append(c.runs[e.Job], r)
		case ended:
			runs[k].until, runs[k].outcome = e.At, e.Outcome
		case completed:
			if _, ok := c.completed[k.attempt]; !ok {
				c.completed[k.attempt] = e
			}
		case renewed:
			// A lease may be renewed before its run begins, and just after it has ended.
			if r := runs[k]; r != nil && e.At.Add(h.lease).After(r.leaseUntil) {
				r.leaseUntil = e.At.Add(h.lease)
			}
		}
	}
	c.checkEnds()
	return c
}

func (c *checker) violated(r rule, job, format string, args ...any) {
	c.violations = append(c.violations, violation{r, job, fmt.Sprintf(format, args...)})
}

// checkEnds finds runs without an end.
func (c *checker) checkEnds() {
	for id, runs := range c.runs {
		for _, r := range runs {
			if r.until.IsZero() {
				c.violated(noEnd, id, "%s", r)
				r.until = r.At
			}
		}
	}
}

// checkLedger compares the accepted jobs with the store's at the end.
func (c *checker) checkLedger() {
	for id := range c.accepted {
		found, ok := c.stored[id]
		want := c.plan.ending(id)
		switch {
		case !ok || !found.State.IsFinal():
			c.violated(lost, id, "its final state is %q", found.State)
		case found != want:
			c.violated(wrongEnd, id, "it ended as %+v instead of %+v", found, want)
		}
		if !c.plan.runs(id) && len(c.runs[id]) > 0 {
			c.violated(wrongEnd, id, "it ran although a dependency failed: %s", c.runs[id][0])
		}
		if c.plan.runs(id) && found.State == amboy.StateSucceeded && len(c.runs[id]) == 0 {
			c.violated(wrongEnd, id, "it did not run")
		}
	}
	for id, e := range c.refused {
		if !e.Allowed {
			c.violated(notPut, id, "%s", e.Reason)
		}
		if len(c.runs[id]) > 0 {
			c.violated(ranRefused, id, "%s", c.runs[id][0])
		}
	}
}

// checkRunsAgain finds leases on ended attempts that are later than the lease under which
// the attempt ended. A run with an earlier lease may begin late, if its process was
// suspended for longer than the lease.
func (c *checker) checkRunsAgain() {
	for id, runs := range c.runs {
		for _, r := range runs {
			end, ok := c.completed[attempt{id, r.Attempt}]
			if ok && (r.Lease > end.Lease || r.Claimed.After(end.At)) {
				c.violated(runsAgain, id, "%s; it had ended under lease %d at %s", r, end.Lease, clock(end.At))
			}
		}
	}
}

// checkHolders finds concurrent runs of the same job or of the same scope.
func (c *checker) checkHolders() {
	holders := map[string][]*run{}
	for id, runs := range c.runs {
		holders["job "+id] = runs
		for _, scope := range c.plan.tasks[id].Scopes {
			holders["scope "+scope] = append(holders["scope "+scope], runs...)
		}
	}
	for held, runs := range holders {
		c.checkOneAtATime(held, runs)
	}
}

func (c *checker) checkOneAtATime(held string, runs []*run) {
	runs = slices.SortedFunc(slices.Values(runs), func(a, b *run) int { return a.At.Compare(b.At) })
	var live []*run
	for _, r := range runs {
		live = slices.DeleteFunc(live, func(other *run) bool { return !other.until.After(r.At) })
		for _, other := range live {
			if isViolation(other, r) {
				c.violated(twoHolders, r.Job, "%s: %s; job %s: %s", held, r, other.Job, other)
			}
		}
		live = append(live, r)
	}
}

// isViolation reports whether two concurrent runs break the promise. They do not if the
// lease of the first claim had run out when the other run began: its process was
// suspended or could not write.
func isViolation(a, b *run) bool {
	first, second := a, b
	if second.Claimed.Before(first.Claimed) {
		first, second = second, first
	}
	return second.At.Before(first.leaseUntil)
}

// checkEnqueueScopes finds jobs that were accepted while another unfinished job held the
// same enqueue scope. One process puts all of them.
func (c *checker) checkEnqueueScopes() {
	byScope := map[string][]event{}
	for id, e := range c.accepted {
		if scope := c.plan.tasks[id].EnqueueScope; scope != "" {
			byScope[scope] = append(byScope[scope], e)
		}
	}
	for scope, puts := range byScope {
		slices.SortFunc(puts, func(a, b event) int { return a.At.Compare(b.At) })
		for i := range len(puts) - 1 {
			holder, next := puts[i].Job, puts[i+1]
			for _, r := range c.runs[holder] {
				if r.until.After(next.At) {
					c.violated(enqueueScope, holder, "%s, and job %s with scope %q was accepted at %s", r, next.Job, scope, clock(next.At))
				}
			}
		}
	}
}

// checkEdges finds jobs that ran too early: before their dependencies had run, or before
// a lease was taken on one of them.
func (c *checker) checkEdges() {
	for id, runs := range c.runs {
		for _, edge := range c.plan.tasks[id].Edges {
			first := runs[0]
			if c.plan.runs(edge) && !c.hasEndedBefore(edge, first.At) {
				c.violated(tooEarly, id, "%s; job %s had not run", first, edge)
			}
			for _, r := range c.runs[edge] {
				if r.Claimed.After(first.At) {
					c.violated(tooEarly, id, "%s; job %s was claimed later: %s", first, edge, r)
				}
			}
		}
	}
}

// hasEndedBefore reports whether the last attempt of a job had run to its end.
func (c *checker) hasEndedBefore(id string, t time.Time) bool {
	return slices.ContainsFunc(c.runs[id], func(r *run) bool {
		ran := r.outcome == done || r.outcome == failed
		return ran && r.Attempt == c.plan.ending(id).Attempt && !r.until.After(t)
	})
}

// checkAttempts finds attempts that were not planned, and attempts that began although
// the one before had not failed.
func (c *checker) checkAttempts() {
	for id, runs := range c.runs {
		for _, r := range runs {
			if last := c.plan.ending(id).Attempt; r.Attempt > last {
				c.violated(attempts, id, "%s; the last planned attempt is %d", r, last)
			}
			if r.Attempt > 0 && !slices.ContainsFunc(runs, func(before *run) bool {
				return before.Attempt == r.Attempt-1 && before.outcome == failed && !before.until.After(r.At)
			}) {
				c.violated(attempts, id, "%s; the attempt before had not failed", r)
			}
		}
	}
}

// suspectAfter is the number of interruptions after which a job runs alone.
const suspectAfter = 3

// hasSuspect reports whether a process ran a job that must run alone between two times.
func (c *checker) hasSuspect(from, to time.Time) bool {
	for _, runs := range c.runs {
		if slices.ContainsFunc(runs, func(r *run) bool {
			return r.Lease > suspectAfter && r.Claimed.Before(to) && r.until.After(from)
		}) {
			return true
		}
	}
	return false
}

// recovery is the recovery of a killed run.
type recovery struct {
	job   string
	takes time.Duration // from the kill to the next run
	// waits is true for a job that may have had to wait for another: for a scope, or
	// because its process ran a job that was interrupted often, beside which it runs no
	// other.
	waits bool
}

// recoveries finds the recoveries of the killed runs, sorted by duration. A run whose job
// did not run again had ended before.
func recoveries(h *history) []recovery {
	c := newChecker(h)
	var all []recovery
	for id, runs := range c.runs {
		for i, r := range runs {
			killed, ok := h.deaths[r.Process]
			if !ok {
				continue
			}
			next := slices.IndexFunc(runs[i+1:], func(other *run) bool {
				return other.Attempt == r.Attempt && other.Lease > r.Lease
			})
			if next < 0 || runs[i+1+next].At.Before(killed) {
				continue
			}
			again := runs[i+1+next]
			waits := len(h.plan.tasks[id].Scopes) > 0 || c.hasSuspect(killed, again.At)
			all = append(all, recovery{id, again.At.Sub(killed), waits})
		}
	}
	slices.SortFunc(all, func(a, b recovery) int { return cmp.Compare(a.takes, b.takes) })
	return all
}
