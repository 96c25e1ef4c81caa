package amboy_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
)

// simpleQueue has none of the optional methods.
type simpleQueue struct{ fakeQueue }

func (*simpleQueue) Runner() amboy.Runner { return nil }

func TestAQueueThatCannotBeControlledIsNamed(t *testing.T) {
	ctx := t.Context()
	q := &simpleQueue{}
	for doing, call := range map[string]func(amboy.Queue) error{
		"reading the settings of":           func(q amboy.Queue) error { _, err := amboy.ControlOf(ctx, q); return err },
		"pausing":                           func(q amboy.Queue) error { return amboy.Pause(ctx, q) },
		"draining":                          func(q amboy.Queue) error { return amboy.Drain(ctx, q) },
		"resuming":                          func(q amboy.Queue) error { return amboy.Resume(ctx, q) },
		"limiting":                          func(q amboy.Queue) error { return amboy.SetMaxRunning(ctx, q, 1) },
		"setting the rate of":               func(q amboy.Queue) error { return amboy.SetRate(ctx, q, nil) },
		"limiting the jobs of a type in":    func(q amboy.Queue) error { return amboy.LimitType(ctx, q, "a", amboy.TypeLimit{}) },
		"counting jobs of":                  func(q amboy.Queue) error { _, err := amboy.CountJobs(ctx, q, amboy.JobQuery{}); return err },
		"changing the number of workers of": func(q amboy.Queue) error { return amboy.SetWorkers(q, 1) },
		"finding jobs of": func(q amboy.Queue) error {
			for _, err := range amboy.FindJobs(ctx, q, amboy.JobQuery{}) {
				return err
			}
			return nil
		},
	} {
		err := call(q)
		require.ErrorIs(t, err, errors.ErrUnsupported, doing)
		require.ErrorContains(t, err, doing+` queue "`+q.ID()+`"`)
		require.ErrorContains(t, call(nil), doing+" a queue: it must not be nil")
	}
}
