package riverjob

import (
	"context"
	"strings"
	"sync"
	"time"
)

// Claims leave jobs of kinds that no definition of this process runs. The index of available jobs does not have the
// kind, so that each claim would read all jobs that it leaves. Instead a queue with such kinds is claimed by priority,
// and each priority from a floor on: when the floor was raised, no job before it could be claimed. A job may get there
// later, with a time in the past: the clock of its client is behind, its transaction was open for long, or another
// process handed it back. So floors stay some time behind the clock of the server, and are dropped from time to time.

const (
	// floorLag is how far floors stay behind the clock of the server.
	floorLag = 5 * time.Second
	// floorTime is how long a floor is used.
	floorTime = 10 * time.Second
)

// floor is a place in the order of the available jobs of a priority. Jobs up to it are not claimed.
type floor struct {
	at time.Time // zero if there is none
	id int64
}

// before reports whether f comes before another floor.
func (f floor) before(other floor) bool {
	return f.at.Before(other.at) || f.at.Equal(other.at) && f.id < other.id
}

// leftKinds are the floors of a queue whose claims leave some kinds.
type leftKinds struct {
	kinds  string
	since  time.Time // when the first floor was used
	floors [4]floor  // by priority
	drops  int       // see allFloors
}

// allFloors are the floors of the queues of a driver.
type allFloors struct {
	mu     sync.Mutex
	queues map[string]leftKinds
	drops  int // how often floors were dropped
}

// of returns the floors of a queue for a claim that leaves some kinds.
func (a *allFloors) of(queue string, except, only []string) leftKinds {
	kinds := strings.Join(except, "\x00") + "\x00\x00" + strings.Join(only, "\x00")
	a.mu.Lock()
	defer a.mu.Unlock()
	q := a.queues[queue]
	if q.kinds != kinds || time.Since(q.since) >= floorTime {
		q = leftKinds{kinds: kinds, since: time.Now()}
	}
	q.drops = a.drops
	return q
}

// set sets the floors of a queue, unless some were dropped since they were read.
func (a *allFloors) set(queue string, raised leftKinds) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if raised.drops != a.drops {
		return
	}
	if a.queues == nil {
		a.queues = map[string]leftKinds{}
	}
	a.queues[queue] = raised
}

// drop drops all floors: jobs before them may be claimed again.
func (a *allFloors) drop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.queues)
	a.drops++
}

// rowsAbove selects the jobs of a priority that may be claimed and come after a floor.
const rowsAbove = claimable + ` AND priority = $4 AND (scheduled_at, id) > (coalesce($5::timestamptz, '-infinity'), $6::bigint)`

// claimAbove claims rows of a queue by priority, and raises its floors. claim claims what is selected.
func (d *Driver) claimAbove(ctx context.Context, queue string, except []string, limit int, claim func(selection) ([]*row, error)) (all []*row, err error) {
	var now time.Time
	var paused bool
	err = d.pool.QueryRow(ctx, d.sql(`SELECT clock_timestamp(), EXISTS (SELECT 1 FROM {s}.river_queue WHERE name = $1 AND paused_at IS NOT NULL)`), queue).Scan(&now, &paused)
	if err != nil || paused {
		return nil, d.failed(err, false)
	}
	raised := d.floors.of(queue, except, d.kinds())
	defer func() { d.floors.set(queue, raised) }()
	for i, f := range raised.floors {
		left := limit - len(all)
		rows, err := claim(selection{
			where: rowsAbove, args: []any{queue, except, d.kinds(), i + 1, nullable(f.at), f.id},
			order: "scheduled_at, id", limit: left, skip: true, withArgs: true,
		})
		all = append(all, rows...)
		if err != nil {
			return all, err
		}
		next := floor{at: now.Add(-floorLag)}
		if len(rows) == left {
			last := rows[len(rows)-1]
			if taken := (floor{last.scheduledAt, last.id}); taken.before(next) {
				next = taken
			}
		}
		if f.before(next) {
			raised.floors[i] = next
		}
		if len(all) == limit {
			return all, nil
		}
	}
	return all, nil
}
