package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
	"github.com/mongodb/amboy/queue/internal/typelimit"
)

// control returns the settings of a queue.
func (c *changes) control(queue int32) (control driver.Control, err error) {
	_, err = c.one(readControl, func(r *row) { control = r.control() }, queue)
	return control, err
}

func (r *row) control() driver.Control {
	return driver.Control{Paused: r.bool(), Draining: r.bool(), MaxRunning: r.int(), Rate: r.rate(), Types: r.typeLimits()}
}

// Control implements driver.Driver. It returns an error if a setting is out of range.
func (d *Driver) Control(ctx context.Context, queue string, change driver.ControlChange) (driver.Control, error) {
	if err := change.Validate(); err != nil {
		return driver.Control{}, fmt.Errorf("controlling queue %q: %w", queue, err)
	}
	control, err := d.control(ctx, queue, change)
	if err != nil {
		return driver.Control{}, fmt.Errorf("controlling queue %q: %w", queue, err)
	}
	if change != (driver.ControlChange{}) {
		d.changed(driver.In(queue))
	}
	return control, nil
}

func (d *Driver) control(ctx context.Context, queue string, wanted driver.ControlChange) (control driver.Control, err error) {
	done, err := d.begin(ctx)
	if err != nil {
		return control, err
	}
	defer done()
	key, found, err := d.findQueue(ctx, d.reader(), queue)
	if err == nil && !found && wanted != (driver.ControlChange{}) {
		key, err = d.ensureQueue(ctx, d.reader(), queue)
	}
	if err != nil {
		return control, d.failed(ctx, err, false)
	}
	if wanted == (driver.ControlChange{}) {
		err = d.read(ctx, readControl, func(r *row) error {
			control = r.control()
			return nil
		}, key.id)
		return control, err
	}
	drains := wanted.Draining != nil && *wanted.Draining
	write := d.transact
	if drains || wanted.MaxRunning != nil || wanted.Type != nil {
		write = d.transactWithPauses
	}
	err = write(ctx, key.id, func(c *changes) (err error) {
		if drains {
			// Inserts that have begun must end first, and later ones must read the change.
			_, err = c.one(lockQueue, func(*row) {}, d.lockKey(lockOfInserts, key.id))
			if err != nil {
				return err
			}
		}
		control, err = c.control(key.id)
		if err != nil {
			return err
		}
		wasLimited := limitsRunningJobs(control)
		control, err = wanted.Apply(control)
		if err != nil {
			return err
		}
		types, err := typelimit.EncodeLimits(control.Types)
		if err != nil {
			return err
		}
		var perSecond any
		burst := 0
		if control.Rate != nil {
			perSecond, burst = control.Rate.PerSecond, control.Rate.Burst
		}
		c.exec(setControl, control.Paused, control.Draining, control.MaxRunning, perSecond, burst, nullable(types), key.id)
		if !wasLimited && limitsRunningJobs(control) {
			// Claims that have begun must end first, and later ones must read the limit.
			c.exec(lockQueue, d.lockKey(lockOfClaims, 0))
			c.exec(setLimited, key.id)
		}
		if wanted.Type != nil {
			return c.keepTypeBuckets(key.id, control)
		}
		return nil
	})
	if err != nil {
		return driver.Control{}, err
	}
	return control, nil
}

// limitsRunningJobs is the condition limitsRunning.
func limitsRunningJobs(control driver.Control) bool {
	return control.MaxRunning > 0 || len(control.Types) > 0
}

// TakeDuty implements driver.Driver.
func (d *Driver) TakeDuty(ctx context.Context, duty driver.Duty, now time.Time) (bool, error) {
	n, err := d.changeOnce(ctx, takeDuty, duty.Name, duty.Owner, table.InstantOf(now.Add(duty.For)), table.InstantOf(now))
	if err != nil {
		return false, fmt.Errorf("taking duty %q: %w", duty.Name, err)
	}
	return n > 0, nil
}

// Mark implements driver.Driver.
func (d *Driver) Mark(ctx context.Context, queue, name string, at time.Time) (last time.Time, err error) {
	if !isStorable(queue) {
		return time.Time{}, fmt.Errorf("marking %q in queue %q: %w", name, queue, &amboy.InvalidJobError{Field: "queue", Value: queue, Rule: storableRule})
	}
	read := func(r *row) error {
		last = table.TimeOf(r.time())
		return r.err
	}
	if at.IsZero() {
		err = d.read(ctx, readMarkOf, read, queue, name)
	} else {
		// If several calls raise the mark at once, each reads the result of the previous one.
		err = d.retrying(ctx, func(ctx context.Context) (bool, error) {
			last = time.Time{}
			return d.pipeline(ctx, func(b *batch) {
				b.exec(addMark, queue, name)
				b.query(raiseMark, read, queue, name, table.InstantOf(at.Truncate(time.Millisecond)))
			})
		})
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("marking %q in queue %q: %w", name, queue, err)
	}
	return last, nil
}
