package management

import (
	"context"
	"errors"
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// Validate returns an *InvalidArgumentError for each field that is out of range, joined.
func (c ControlChange) Validate() error {
	var errs []error
	if c.MaxRunning != nil && *c.MaxRunning < 0 {
		errs = append(errs, invalid("max_running", fmt.Sprint(*c.MaxRunning), "must not be negative"))
	}
	if c.Rate != nil {
		if err := c.Rate.Validate(); err != nil {
			errs = append(errs, invalid("rate", c.Rate.String(), err.Error()))
		}
		if c.NoRate {
			errs = append(errs, invalid("no_rate", "true", "must not be set together with rate"))
		}
	}
	if c.TypeLimit != nil {
		if err := amboy.ValidateTypeLimit(c.TypeLimit.Type, c.TypeLimit.TypeLimit); err != nil {
			errs = append(errs, invalid("type_limit", c.TypeLimit.Type, err.Error()))
		}
	}
	if c.Workers != nil && (*c.Workers < 0 || *c.Workers > MaxWorkers) {
		errs = append(errs, invalid("workers", fmt.Sprint(*c.Workers), fmt.Sprintf("must be from 0 to %d", MaxWorkers)))
	}
	return errors.Join(errs...)
}

func (i *inspector) SetControl(ctx context.Context, queue string, change ControlChange) (Control, error) {
	if err := i.check(validQueue(queue), change.Validate()); err != nil {
		return Control{}, fmt.Errorf("changing the controls of a queue: %w", err)
	}
	if err := i.checkQueueExists(ctx, queue); err != nil {
		return Control{}, fmt.Errorf("changing the controls of queue %q: %w", queue, err)
	}
	control, err := i.setControl(ctx, queue, change)
	if err != nil {
		err = fmt.Errorf("changing the controls of queue %q: %w", queue, err)
	}
	if change == (ControlChange{}) {
		return control, err
	}
	return control, i.record(ctx, AuditEntry{What: "control", Queue: queue, Detail: detailOf(change)}, err)
}

func (i *inspector) setControl(ctx context.Context, queue string, change ControlChange) (Control, error) {
	stored := driver.ControlChange{
		Paused: change.Paused, Draining: change.Draining, MaxRunning: change.MaxRunning, Rate: change.Rate, NoRate: change.NoRate,
	}
	if l := change.TypeLimit; l != nil {
		stored.Type = &driver.TypeChange{Type: l.Type, Limit: l.TypeLimit}
	}
	control, err := i.store.Admin().Control(ctx, queue, stored)
	if err != nil {
		return Control{}, err
	}
	if change.Workers != nil {
		err = i.store.SetWorkers(ctx, queue, *change.Workers)
		return controlOf(control, *change.Workers), err
	}
	workers, err := i.workersOf(ctx, queue)
	return controlOf(control, workers), err
}
