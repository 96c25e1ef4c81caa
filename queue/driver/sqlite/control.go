package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
	"github.com/mongodb/amboy/queue/internal/typelimit"
)

// control returns the settings of a queue.
func (c *changes) control(queue int64) (control driver.Control, err error) {
	control, known := c.controls[queue]
	if known {
		return control, nil
	}
	_, err = c.one(readControl, func(r *row) { control = r.control() }, queue)
	if err == nil {
		c.controls[queue] = control
	}
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
	if change == (driver.ControlChange{}) {
		control, err := d.readControl(ctx, queue)
		if err != nil {
			return driver.Control{}, fmt.Errorf("reading the control of queue %q: %w", queue, err)
		}
		return control, nil
	}
	control, err := d.control(ctx, queue, change)
	if err != nil {
		return driver.Control{}, fmt.Errorf("controlling queue %q: %w", queue, err)
	}
	return control, nil
}

func (d *Driver) control(ctx context.Context, queue string, wanted driver.ControlChange) (driver.Control, error) {
	var control driver.Control
	err := d.writer.write(ctx, &change{news: driver.In(queue), run: func(c *changes) error {
		key, err := c.ensureQueue(queue)
		if err != nil {
			return err
		}
		control, err = c.control(key)
		if err != nil {
			return err
		}
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
		delete(c.controls, key)
		_, err = c.exec(setControl, control.Paused, control.Draining, control.MaxRunning, perSecond, burst, nullable(types), time.Now().UnixNano(), key)
		if err != nil || wanted.Type == nil {
			return err
		}
		return c.keepTypeBuckets(key, control)
	}})
	if err != nil {
		return driver.Control{}, err
	}
	return control, nil
}

// keepTypeBuckets drops the buckets of types whose rate was removed.
func (c *changes) keepTypeBuckets(queue int64, control driver.Control) error {
	var buckets typelimit.Buckets
	_, err := c.one(readTypeBuckets, func(r *row) { buckets = r.typeBuckets() }, queue)
	if err != nil {
		return err
	}
	buckets.Keep(control.Types)
	return c.setTypeBuckets(queue, buckets)
}

func (c *changes) setTypeBuckets(queue int64, buckets typelimit.Buckets) error {
	text, err := buckets.Encode()
	if err == nil {
		_, err = c.exec(setTypeBuckets, nullable(text), queue)
	}
	return err
}

// TakeDuty implements driver.Driver.
func (d *Driver) TakeDuty(ctx context.Context, duty driver.Duty, now time.Time) (bool, error) {
	var taken bool
	err := d.writer.write(ctx, &change{run: func(c *changes) error {
		n, err := c.exec(takeDuty, duty.Name, duty.Owner, table.InstantOf(now.Add(duty.For)), table.InstantOf(now))
		taken = n > 0
		return err
	}})
	if err != nil {
		return false, fmt.Errorf("taking duty %q: %w", duty.Name, err)
	}
	return taken, nil
}
