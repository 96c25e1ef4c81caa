package mongodb

import (
	"context"
	"maps"
	"slices"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
)

// follow does what follows from changes that were made: it settles the edges that
// name those that ended, and arranges who waits for the scopes that were taken or
// freed. What fails here is left to the sweep.
func (d *Driver) follow(ctx context.Context, changes []*change) {
	scopes := scopeSet{}
	var ended []*document
	heard, news := false, driver.Change{}
	for _, c := range changes {
		if !c.landed() {
			continue
		}
		heard = heard || !c.quiet
		if d.mayLetClaim(c) {
			news = news.With(driver.In(c.queue))
		}
		scopes.touch(c.before, c.after)
		if c.after.Settle {
			ended = append(ended, c.after)
		}
	}
	if err := d.settle(ctx, ended); err != nil {
		d.leaveToSweep(ctx, "telling the jobs that depend on others that these ended", err)
	}
	d.arrangeNow(ctx, scopes, heard, news)
}

// arrangeNow arranges who waits for scopes, and tells the subscribers where they
// are to hear of a change, or where somebody is ready now.
func (d *Driver) arrangeNow(ctx context.Context, scopes scopeSet, heard bool, news driver.Change) {
	readied, err := d.arrange(ctx, scopes)
	if err != nil {
		d.leaveToSweep(ctx, "looking who waits for scopes", err)
	}
	if heard || readied {
		if readied {
			news = news.With(driver.InQueuesOf(slices.Collect(maps.Keys(scopes)), func(queue string) string { return queue }))
		}
		d.subscribers.Notify(news)
	}
}

// mayLetClaim tells whether a change may let somebody claim, whatever follows from
// it. The end of a job may not, unless it makes room.
func (d *Driver) mayLetClaim(c *change) bool {
	if c.quiet || !c.ends {
		return !c.quiet
	}
	return !c.after.final() || d.limits.isLimited(c.queue)
}

// leaveToSweep has something looked for again that could not be done.
func (d *Driver) leaveToSweep(ctx context.Context, what string, err error) {
	d.sweeper.hurry()
	if ctx.Err() != nil {
		return // who called has left
	}
	logging.Warning(ctx, message.Fields{
		"message":    "a change was made, and what follows from it is left for later",
		"what":       what,
		"collection": d.jobs.Name(),
		"error":      err.Error(),
	})
}
