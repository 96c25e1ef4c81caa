package mongodb

import (
	"context"
	"maps"
	"slices"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
)

// follow does what follows from changes that were made: it removes edges to ended
// documents, and rearranges the waiters of scopes that were taken or freed. Anything that
// fails here is left to the sweep.
func (d *Driver) follow(ctx context.Context, changes []*change) {
	scopes := scopeSet{}
	var ended []*document
	heard, news := false, driver.Change{}
	for _, c := range changes {
		if !c.landed() {
			continue
		}
		heard = heard || !c.quiet
		if c.before.runs() && !c.after.runs() {
			d.ends.drop(c.before)
		}
		if d.mayMakeClaimable(c) {
			news = news.With(driver.In(c.queue))
		}
		scopes.touch(c.before, c.after)
		if c.after.Settle {
			ended = append(ended, c.after)
		}
	}
	if err := d.settle(ctx, ended); err != nil {
		d.leaveToSweep(ctx, "releasing the dependents of ended jobs", err)
	}
	d.arrangeNow(ctx, scopes, heard, news)
}

// arrangeNow rearranges the waiters of scopes. It notifies the subscribers if they must
// hear of a change, or if a document became ready.
func (d *Driver) arrangeNow(ctx context.Context, scopes scopeSet, heard bool, news driver.Change) {
	readied, err := d.arrange(ctx, scopes)
	if err != nil {
		d.leaveToSweep(ctx, "arranging the waiters of scopes", err)
	}
	if heard || readied {
		if readied {
			news = news.With(driver.InQueuesOf(slices.Collect(maps.Keys(scopes)), func(queue string) string { return queue }))
		}
		d.tell(news)
	}
}

// mayMakeClaimable reports whether a change by itself may make a record claimable. The end of
// a job does not, unless it makes room in a limited queue.
func (d *Driver) mayMakeClaimable(c *change) bool {
	if c.quiet || !c.ends {
		return !c.quiet
	}
	return !c.after.final() || d.limits.isLimited(c.queue)
}

// leaveToSweep makes the sweep run soon, because a follow-up of a change failed.
func (d *Driver) leaveToSweep(ctx context.Context, what string, err error) {
	d.sweeper.force()
	if ctx.Err() != nil {
		return // the caller has left
	}
	logging.Warning(ctx, message.Fields{
		"message":    "a change was made, but a follow-up failed and is left to the next sweep",
		"what":       what,
		"collection": d.jobs.Name(),
		"error":      err.Error(),
	})
}
