package management

import (
	"context"
	"errors"
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/presence"
	"github.com/mongodb/amboy/queue/driver"
)

// Control contains the settings of a queue that an operator changes.
type Control struct {
	// Paused keeps jobs from starting.
	Paused bool `json:"paused"`
	// Draining keeps jobs from being enqueued.
	Draining bool `json:"draining"`
	// MaxRunning is the maximum number of running jobs, over all processes; 0 means no
	// limit.
	MaxRunning int `json:"max_running"`
	// Rate limits how fast jobs start, over all processes; nil means no limit.
	Rate *amboy.Rate `json:"rate,omitempty"`
	// Types holds the limits of job types, over all processes, by the name of the type.
	Types map[string]amboy.TypeLimit `json:"types,omitempty"`
	// Workers is the number of workers that each process has for the queue; 0 means the
	// number that the process was configured with. Other processes apply it within a
	// minute.
	Workers int `json:"workers"`
}

// ControlChange changes a Control. Fields that are nil stay as they are.
type ControlChange struct {
	// Paused is true to keep jobs from starting, and Draining is true to keep jobs from being
	// enqueued. MaxRunning is the maximum number of running jobs, over all processes; 0 means
	// no limit.
	Paused     *bool `json:"paused,omitempty"`
	Draining   *bool `json:"draining,omitempty"`
	MaxRunning *int  `json:"max_running,omitempty"`
	// Rate replaces the rate, and NoRate removes it.
	Rate   *amboy.Rate `json:"rate,omitempty"`
	NoRate bool        `json:"no_rate,omitempty"`
	// Workers is the number of workers that each process has for the queue, at most 10,000; 0
	// means the number that the process was configured with.
	Workers *int `json:"workers,omitempty"`
	// TypeLimit replaces the limit of a job type.
	TypeLimit *TypeLimitChange `json:"type_limit,omitempty"`
	// Create is true to also change a queue that does not exist yet, for its first job to come.
	// Without it, and always in memory by reference, the name of such a queue is refused as
	// unknown.
	Create bool `json:"create,omitempty"`
}

// TypeLimitChange replaces the limit of a job type in a queue. The zero limit removes it.
type TypeLimitChange struct {
	Type string `json:"type"`
	amboy.TypeLimit
}

// MaxWorkers is the largest number of workers of a process for a queue.
const MaxWorkers = 10_000

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
	if err := i.check(validQueue(queue), change.Validate(), validWorkers(queue, change.Workers)); err != nil {
		return Control{}, fmt.Errorf("changing the controls of a queue: %w", err)
	}
	err := i.checkQueueExists(ctx, queue)
	if change.Create && errors.Is(err, ErrUnknownQueue) && len(i.store.Queues()) == 0 && !i.store.ByReference() {
		err = nil
	}
	if err != nil {
		return Control{}, fmt.Errorf("changing the controls of queue %q: %w", queue, err)
	}
	change.Create = false // all that follows is as for other queues
	control, err := i.setControl(ctx, queue, change)
	if wrong := unstorableQueue(err); wrong != nil {
		return Control{}, fmt.Errorf("changing the controls of a queue: %w", wrong)
	}
	if err != nil {
		err = fmt.Errorf("changing the controls of queue %q: %w", queue, err)
	}
	if change == (ControlChange{}) {
		return control, err
	}
	return control, i.record(ctx, AuditEntry{What: "control", Queue: queue, Detail: detailOf(change)}, err)
}

// validWorkers returns an error if the number of workers of a queue can't be stored, under its name.
func validWorkers(queue string, workers *int) error {
	if extra := len(presence.WorkersKey(queue)) - driver.MaxNoteName; workers != nil && extra > 0 {
		return invalid("workers", fmt.Sprint(*workers), fmt.Sprintf("can't be set for a queue whose name has more than %d bytes", len(queue)-extra))
	}
	return nil
}

// unstorableQueue returns the *InvalidArgumentError for the error of a store that can't keep the name of
// a queue; nil for another error.
func unstorableQueue(err error) error {
	var wrong *amboy.InvalidJobError
	if !errors.As(err, &wrong) || wrong.Field != "queue" {
		return nil
	}
	return invalid("queue", fmt.Sprint(wrong.Value), wrong.Rule)
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
