package mongodb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mongodb/grip/message"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
)

const (
	// sweepEvery is the interval of sweeps while a dead process may have left work
	// undone. It grows to sweepSeldom while documents wait and nothing happens.
	sweepEvery  = 5 * time.Second
	sweepSeldom = 30 * time.Second
	// sweepBatch is the maximum number of ended documents, of jobs that others wait for, and
	// of interrupted retries that one sweep reads.
	sweepBatch = 1000
	// adoptBatch is the maximum number of legacy documents that are read at once, with
	// their bodies.
	adoptBatch = 200
)

const (
	sweepDuty = "sweep"
	// sweepDutyTime is how long the duty lasts after a sweep began, and how long others wait
	// after the next one should have begun before they sweep themselves.
	sweepDutyTime = 2 * sweepEvery
	// sweepJitter is the maximum time by which sweeps of processes without the duty are
	// delayed, so that one of them is first and the others hear of it.
	sweepJitter = time.Second
	// sweepLimit bounds a sweep. A connection may be dead without an error, and what a sweep has done it does not do
	// again.
	sweepLimit = time.Minute
	// deafSweep is the interval of sweeps of a process that does not hear of changes.
	deafSweep = time.Minute
)

// sweep runs sweeps until ctx ends.
func (d *Driver) sweep(ctx context.Context) {
	broken := false
	for d.sweeper.await(ctx) {
		err := d.sweepOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !broken {
			logging.Warning(ctx, message.Fields{
				"message":    "maintenance sweep failed; trying again",
				"collection": d.jobs.Name(),
				"error":      err.Error(),
			})
		}
		broken = err != nil
		if broken {
			d.sweeper.watch()
		}
	}
}

// sweepOnce prepares the indexes if needed, and sweeps once. What is left undone does not wait for an
// index that can't be built, or that takes long: the server continues, and the next sweep waits again.
func (d *Driver) sweepOnce(ctx context.Context) error {
	indexing, stop := context.WithTimeout(ctx, sweepLimit)
	indexErr := d.prepareIndexesAgain(indexing)
	stop()
	bounded, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	err := d.sweepDue(bounded)
	if indexErr != nil {
		d.sweeper.requestAgain(false, false)
	}
	return errors.Join(indexErr, err)
}

// sweepDue sweeps once. It sends one command, and on replica sets one before and one after it,
// if there is nothing to do.
func (d *Driver) sweepDue(ctx context.Context) error {
	s := &d.sweeper
	what, forced := s.begin()
	d.followCommitted(ctx)
	s.interval = min(max(2*s.interval, sweepEvery), sweepSeldom)
	if what.ready || d.avoided.any(d.elapsed()) || !s.hears {
		s.interval = sweepEvery
	}
	if what.everything && d.isReplica {
		won, err := d.takeSweep(ctx)
		if err != nil {
			s.requestAgain(forced, what.legacy)
			return fmt.Errorf("taking the duty to sweep: %w", err)
		}
		what.everything = won || forced
	}
	left, err := d.sweepNow(ctx, what)
	if err != nil {
		s.requestAgain(forced, what.legacy)
		return err
	}
	switch {
	case left || !s.hears:
		s.again()
	case what.everything:
		return d.giveUpSweep(ctx, sweepDone)
	}
	return nil
}

// sweepNow reads and does what was left undone, and reports whether more may be left soon.
func (d *Driver) sweepNow(ctx context.Context, what sweepQuery) (left bool, err error) {
	s, now := &d.sweeper, d.elapsed()
	what.committed = s.committed.take()
	if what.everything {
		what.edges, what.scopes = now >= s.awaited.due, now >= s.scopes.due
	}
	found, err := d.findLeftovers(ctx, what)
	if err != nil {
		for _, id := range what.committed {
			s.committed.add(id)
		}
		return true, err
	}
	if s.committed.more() {
		s.checkCommitted()
	}
	var failures []error
	note := func(what string, err error) {
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", what, err))
		}
	}
	if what.legacy {
		note("adopting jobs of the legacy library", d.adoptLegacy(ctx, found.legacy))
	}
	note("releasing dependents of ended jobs", d.settle(ctx, found.settle))
	if what.edges {
		note("finding the jobs that documents wait for", d.readPage(ctx, &s.awaited, lineEdges, found.someEdge, found.edges.add))
	}
	note("checking whether dependencies have ended", eachQueue(found.edges, func(queue string, ids map[string]bool) error {
		return d.checkEdges(ctx, queue, ids)
	}))
	if what.everything {
		next := s.interrupted(found.handovers, time.Now())
		errs := make([]error, len(next))
		eachAtOnce(len(next), func(i int) { errs[i] = d.resume(ctx, next[i]) })
		for i, failure := range errs {
			if !errors.Is(failure, errMoved) && !errors.Is(failure, driver.ErrLeaseLost) {
				note(fmt.Sprintf("finishing the retry of record %q", next[i].Handover.From), failure)
			}
		}
	}
	scopes := scopeSet{}
	if what.scopes {
		note("finding the scopes that documents wait for", d.readPage(ctx, &s.scopes, lineScope, found.someScope, scopes.add))
	}
	misplaced, err := d.misplaced(ctx, scopes)
	note("querying the holders of scopes", err)
	d.arrangeNow(ctx, misplaced, false, driver.Change{})
	if found.ready {
		d.tell(driver.Anywhere)
		note("waking other processes", d.wakeOthers(ctx))
	}
	some := len(found.settle)+len(found.handovers)+len(found.legacy) > 0
	if some || len(misplaced) > 0 {
		s.interval = sweepEvery
	}
	return some || s.scopes.left || s.awaited.left, errors.Join(failures...)
}

// misplaced returns the scopes for which documents wait although there may be room: those
// without a holder, and limited ones whose holders have changed since they were arranged.
func (d *Driver) misplaced(ctx context.Context, scopes scopeSet) (scopeSet, error) {
	var queries []bson.D
	for queue, set := range scopes {
		queries = append(queries, d.inQueue(queue, bson.E{Key: "scopes", Value: field("$in", holding(slices.Sorted(maps.Keys(set))))}))
	}
	holders := map[key][]string{}
	if len(queries) > 0 {
		only := options.Find().SetBatchSize(2 * sweepBatch).SetProjection(bson.D{{Key: "scopes", Value: 1}, {Key: "group", Value: 1}})
		err := d.each(ctx, either(queries...), only, func(doc *document) error {
			for _, scope := range doc.Scopes {
				k := key{doc.Group, keyOf(scope)}
				holders[k] = append(holders[k], doc.id)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	misplaced, known := scopeSet{}, d.sweeper.holders
	d.sweeper.holders = map[key]string{}
	for queue, set := range scopes {
		for scope := range set {
			k := key{queue, scope}
			if len(holders[k]) > 0 && !isLimited(scope) {
				continue
			}
			slices.Sort(holders[k])
			now := strings.Join(holders[k], " ")
			if before, is := known[k]; len(holders[k]) == 0 || !is || before != now {
				misplaced.add(queue, scope)
			}
			d.sweeper.holders[k] = now
		}
	}
	return misplaced, nil
}

// checkEdges marks the jobs that documents depend on, which may not be marked yet, and
// removes the edges to jobs that have ended or do not exist.
func (d *Driver) checkEdges(ctx context.Context, queue string, ids map[string]bool) error {
	b := &batch{Driver: d}
	targets := map[key]target{}
	if err := b.markTargets(ctx, queue, ids, targets); err != nil {
		return err
	}
	var ended []string
	for id := range ids {
		if t, there := targets[key{queue, id}]; !there || t.hasEnded {
			ended = append(ended, id)
		}
	}
	return d.endEdges(ctx, queue, ended)
}
