package management_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
)

// A program that computes the IDs to act on, and finds none, acted on all jobs of the queue.
func TestAnEmptyListOfIDsSelectedAllJobsOfTheQueue(t *testing.T) {
	inspectEach(t, []view{ofQueue, ofClient}, func(f *inspected) {
		f.putOneInEachState()
		before := f.states()
		for field, filter := range map[string]management.JobFilter{
			"queues": {Queues: []string{}, Types: []string{"alpha"}},
			"states": {Queues: []string{f.name}, States: []amboy.JobState{}},
			"types":  {Queues: []string{f.name}, Types: []string{}},
			"tags":   {Queues: []string{f.name}, Tags: []string{}},
			"ids":    {Queues: []string{f.name}, IDs: []string{}},
		} {
			refused := func(_ any, err error) {
				f.Helper()
				var argument *management.InvalidArgumentError
				require.ErrorAs(f, err, &argument, field)
				assert.Equal(f, field, argument.Field)
			}
			for _, kind := range []management.ActionKind{management.Cancel, management.Delete} {
				refused(f.Act(f.ctx, management.ActRequest{Action: management.Action{Kind: kind}, Filter: filter, Limit: 100}))
			}
			refused(f.FindJobs(f.ctx, filter, management.PageRequest{}))
			refused(f.CountJobs(f.ctx, filter, 10))
			refused(f.CountStates(f.ctx, management.StateCountRequest{Filter: filter}))
			refused(f.ErrorGroups(f.ctx, management.ErrorGroupRequest{Filter: filter}))
		}
		assert.Equal(f, before, f.states())
	})
}
