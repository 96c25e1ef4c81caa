package mongodb

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy/queue/driver"
)

// The states in the duty's document.
const (
	sweepBegins = "begins"
	sweepDone   = "done"   // nothing was left
	sweepWakes  = "wakes"  // there are ready documents that a dead process may not have announced
	sweepLeaves = "leaves" // the owner closes
)

// hear is called when the duty's document has changed. Another sweep follows after an interval
// unless nothing is left.
func (s *sweeper) hear(state string, interval time.Duration) {
	s.change(func() {
		switch state {
		case sweepBegins:
			s.mine = false
			s.cancelPlanned()
			s.takeover = s.after(interval + sweepDutyTime)
			s.committed.clear()
		case sweepDone:
			s.takeover = time.Time{}
		case sweepLeaves:
			s.takeover = s.after(0)
		}
	})
}

// sweepHeard is called for an event of the duty's document.
func (d *Driver) sweepHeard(e event) {
	text, _ := e.fields().Lookup("beat").StringValueOK()
	beat := strings.Fields(text)
	if len(beat) != 4 || beat[0] == d.barrier.id {
		return
	}
	if beat[1] == sweepWakes {
		d.subscribers.Notify(driver.Anywhere)
		return
	}
	interval, _ := time.ParseDuration(beat[3])
	d.sweeper.hear(beat[1], max(interval, sweepEvery))
}

// takeSweep takes the duty to sweep. It returns false if another process has it.
func (d *Driver) takeSweep(ctx context.Context) (bool, error) {
	now := time.Now()
	until := ceilMillisecond(now.Add(sweepDutyTime))
	// An end of the duty after until was set by a process whose clock is ahead.
	isFree := either(field("owner", d.barrier.id), field("until", field("$lte", now)), field("until", field("$gt", until)))
	err := d.beatSweep(ctx, all(field("_id", dutyKey(sweepDuty)), isFree), sweepBegins, until, true)
	won := err == nil
	if mongo.IsDuplicateKeyError(err) { // another process has it
		err = nil
	}
	d.sweeper.mu.Lock()
	defer d.sweeper.mu.Unlock()
	d.sweeper.mine = won
	if !won {
		d.sweeper.takeover = d.sweeper.after(sweepDutyTime)
	}
	return won, err
}

// giveUpSweep gives the duty up, if this process has it.
func (d *Driver) giveUpSweep(ctx context.Context, state string) error {
	d.sweeper.mu.Lock()
	had := d.sweeper.mine
	d.sweeper.mine = false
	d.sweeper.mu.Unlock()
	if !had || !d.isReplica {
		return nil
	}
	mine := bson.D{{Key: "_id", Value: dutyKey(sweepDuty)}, {Key: "owner", Value: d.barrier.id}}
	return d.beatSweep(ctx, mine, state, time.Time{}, false)
}

// wakeOthers makes the processes that have idle workers claim.
func (d *Driver) wakeOthers(ctx context.Context) error {
	if !d.isReplica {
		return nil
	}
	mine := bson.D{{Key: "_id", Value: dutyKey(sweepDuty)}, {Key: "owner", Value: d.barrier.id}}
	return d.beatSweep(ctx, mine, sweepWakes, ceilMillisecond(time.Now().Add(sweepDutyTime)), false)
}

// beatSweep writes the duty's document. The change streams of other processes report what it says.
func (d *Driver) beatSweep(ctx context.Context, filter bson.D, state string, until time.Time, upsert bool) error {
	d.sweeper.beats++
	set := field("$set", bson.D{
		{Key: "owner", Value: d.barrier.id},
		{Key: "until", Value: until},
		{Key: "beat", Value: fmt.Sprintf("%s %s %d %s", d.barrier.id, state, d.sweeper.beats, d.sweeper.interval)},
	})
	return attempts(ctx, func() error {
		_, failure := d.control.UpdateOne(ctx, filter, set, options.Update().SetUpsert(upsert))
		return failure
	}, nil)
}
