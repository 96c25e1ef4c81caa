package memory

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

// Queues implements driver.Driver.
func (d *Driver) Queues(ctx context.Context, req driver.QueueRequest) ([]driver.QueueInfo, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	infos := make([]driver.QueueInfo, 0, min(req.Limit, queuesAtOnce))
	err := d.eachQueue(ctx, req, func(info driver.QueueInfo) { infos = append(infos, info) })
	if err != nil {
		return nil, fmt.Errorf("describing the queues: %w", err)
	}
	return infos, nil
}

// SumQueues implements driver.Driver.
func (d *Driver) SumQueues(ctx context.Context, busiest int) (totals driver.QueueTotals, err error) {
	err = d.eachQueue(ctx, driver.QueueRequest{}, func(info driver.QueueInfo) { totals.Add(info, busiest) })
	if err != nil {
		return driver.QueueTotals{}, fmt.Errorf("adding up the queues: %w", err)
	}
	return totals, nil
}

// queuesAtOnce is the number of queues that are described under the lock at once.
const queuesAtOnce = 1000

// eachQueue visits the requested queues under the lock, which it releases after every
// queuesAtOnce queues.
func (d *Driver) eachQueue(ctx context.Context, req driver.QueueRequest, visit func(driver.QueueInfo)) error {
	if req.Limit == 0 {
		req.Limit = math.MaxInt
	}
	for req.Limit > 0 {
		if err := d.lockToRead(ctx); err != nil {
			return err
		}
		n, most := 0, min(req.Limit, queuesAtOnce)
		d.names.Ascend(req.From, func(name string, q *queue) bool {
			visit(q.describe())
			req.From = driver.NextName(name)
			n++
			return n < most
		})
		d.unlock()
		if n < most {
			return nil
		}
		req.Limit -= n
	}
	return nil
}

func (q *queue) describe() driver.QueueInfo {
	return driver.QueueInfo{
		Name: q.name, Control: q.control, Stats: q.schedule.Stats(),
		Scheduled: q.schedule.Scheduled(), Parked: q.schedule.Parked(),
	}
}

// Unfinished implements driver.Driver.
func (d *Driver) Unfinished(ctx context.Context) ([]string, error) {
	if err := d.lockToRead(ctx); err != nil {
		return nil, err
	}
	defer d.unlock()
	var names []string
	for _, q := range d.queues {
		if !q.schedule.Idle() {
			names = append(names, q.name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// CountTypes implements driver.Driver. Its cost does not depend on the number of records. A
// record counts for the type with which it was inserted.
func (d *Driver) CountTypes(ctx context.Context) ([]driver.TypeCount, error) {
	if err := d.lockToRead(ctx); err != nil {
		return nil, fmt.Errorf("counting jobs by type: %w", err)
	}
	counts := schedule.TypeCounts{}
	for _, q := range d.queues {
		q.schedule.CountTypes(q.name, counts)
	}
	d.unlock()
	return counts.Sorted(), nil
}

// OldestReady implements driver.Driver. If a queue has many records that were added before the
// first ready one, it returns the time of the record that would be claimed next.
func (d *Driver) OldestReady(ctx context.Context, queues []string, now time.Time) (map[string]time.Time, error) {
	since := map[string]time.Time{}
	for _, name := range queues {
		if err := d.lockToRead(ctx); err != nil {
			return nil, fmt.Errorf("finding the oldest ready record of queue %q: %w", name, err)
		}
		if q := d.queues[name]; q != nil {
			for _, e := range []*entry{q.schedule.OldestReady(q.records.All), q.schedule.OldestDue(now)} {
				if e != nil {
					driver.SetOldest(since, name, e.Job.record.TimeInfo)
				}
			}
		}
		d.unlock()
	}
	return since, nil
}

// Control implements driver.Driver.
func (d *Driver) Control(ctx context.Context, queue string, change driver.ControlChange) (driver.Control, error) {
	if err := change.Validate(); err != nil {
		return driver.Control{}, fmt.Errorf("invalid control of queue %q: %w", queue, err)
	}
	var control driver.Control
	err := d.one(ctx, queue, func() (err error) {
		q := d.queue(queue)
		control, err = change.Apply(q.control)
		if err != nil {
			return fmt.Errorf("invalid control of queue %q: %w", queue, err)
		}
		q.control = control
		if control.Rate == nil {
			q.bucket = 0
		}
		q.typeBuckets.Keep(control.Types)
		if control.Draining {
			d.wakeAll(q)
		}
		return nil
	})
	return control, err
}

// TakeDuty implements driver.Driver.
func (d *Driver) TakeDuty(ctx context.Context, duty driver.Duty, now time.Time) (bool, error) {
	if err := d.lock(ctx); err != nil {
		return false, err
	}
	defer d.unlock()
	until := now.Add(duty.For)
	held := d.duties[duty.Name]
	if held.owner != duty.Owner && held.until.After(now) && !held.until.After(until) {
		return false, nil
	}
	d.duties[duty.Name] = heldDuty{owner: duty.Owner, until: until}
	return true, nil
}

// heldDuty is a duty that an owner holds until a time.
type heldDuty struct {
	owner string
	until time.Time
}
