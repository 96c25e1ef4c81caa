package management

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
)

// countedAtOnce is the number of states whose jobs are counted at once.
const countedAtOnce = 4

// Validate returns an *InvalidArgumentError for each field that is not valid, joined.
func (r StateCountRequest) Validate() error {
	errs := []error{r.Filter.Validate()}
	if r.Most < 0 || r.Most > MaxCount {
		errs = append(errs, invalid("most", fmt.Sprint(r.Most), fmt.Sprintf("must be from 1 to %d, or 0 for %[1]d", MaxCount)))
	}
	if r.Within < 0 || r.Within > MaxCountTime {
		errs = append(errs, invalid("within", r.Within.String(), fmt.Sprintf("must be above 0 and at most %s, or 0 for %[1]s", MaxCountTime)))
	}
	return errors.Join(errs...)
}

func (i *inspector) CountStates(ctx context.Context, req StateCountRequest) ([]StateCount, error) {
	if err := i.check(req.Validate()); err != nil {
		return nil, fmt.Errorf("counting jobs by state: %w", err)
	}
	counts, err := i.countStates(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("counting jobs by state: %w", err)
	}
	return counts, nil
}

func (i *inspector) countStates(ctx context.Context, req StateCountRequest) ([]StateCount, error) {
	queues, err := i.resolveQueues(req.Filter.Queues)
	if err != nil {
		return nil, err
	}
	states := req.Filter.States
	if len(states) == 0 {
		states = amboy.JobStates()
	}
	limited, cancel := context.WithTimeout(ctx, cmp.Or(req.Within, MaxCountTime))
	defer cancel()
	counts := make([]StateCount, len(states))
	var counting errgroup.Group
	counting.SetLimit(countedAtOnce)
	for n, state := range states {
		counting.Go(func() error {
			filter := req.Filter
			filter.States = []amboy.JobState{state}
			return contain.Panic(func() error { // of the driver
				count, err := i.countSelected(limited, filter, queues, cmp.Or(req.Most, MaxCount))
				if endedAlone(limited, ctx) {
					err = nil // what was counted until then is the answer
				}
				counts[n] = StateCount{State: state, Count: count}
				return err
			})
		})
	}
	return counts, counting.Wait()
}
