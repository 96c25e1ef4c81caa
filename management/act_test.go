package management_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
)

// actAll calls Act until no jobs are left, and sums up the results.
func (f *inspected) actAll(req management.ActRequest) (all management.Acted, calls int) {
	f.Helper()
	for {
		acted, err := f.Act(f.ctx, req)
		require.NoError(f, err)
		all.Done += acted.Done
		all.Skipped += acted.Skipped
		calls++
		if acted.Next == "" {
			return all, calls
		}
		require.LessOrEqual(f, acted.Done+acted.Skipped, req.Limit)
		require.Less(f, calls, 1000, "Act must reach the end")
		req.Cursor = acted.Next
	}
}

func TestActMatchesItsDryRun(t *testing.T) {
	for _, test := range actionTests {
		t.Run(string(test.action.Kind), func(t *testing.T) {
			inspectEach(t, []view{ofGroup}, func(f *inspected) {
				f.putOneInEachState()
				req := management.ActRequest{
					Action: test.action, Filter: management.JobFilter{Queues: []string{f.name}, IDs: exampleIDs}, Limit: 4, DryRun: true,
				}
				predicted, calls := f.actAll(req)
				assert.Greater(f, calls, 1)
				req.DryRun = false
				did, _ := f.actAll(req)
				assert.Equal(f, predicted, did)
				assert.Equal(f, len(f.examples()), did.Done+did.Skipped)
			})
		})
	}
}

func TestActRetriesAJobOnceEvenIfItFailsAgain(t *testing.T) {
	inspectEach(t, []view{ofQueue}, func(f *inspected) {
		const n = 25
		var ran atomic.Int64
		var jobs []amboy.Job
		var ids []string
		for k := range n {
			id := fmt.Sprintf("bad %02d", k)
			jobs = append(jobs, doing(f.T, id, "alpha", func(_ context.Context, j *task) {
				ran.Add(1)
				j.AddError(assert.AnError)
			}))
			ids = append(ids, id)
		}
		f.put(jobs...)
		f.wait(ids...)
		require.EqualValues(f, n, ran.Load())

		req := management.ActRequest{
			Action: management.Action{Kind: management.Retry},
			Filter: management.JobFilter{States: []amboy.JobState{amboy.StateFailed}},
			Limit:  4,
		}
		for {
			acted, err := f.Act(f.ctx, req)
			require.NoError(f, err)
			assert.LessOrEqual(f, acted.Done, 4)
			f.wait(ids...) // until they have failed again
			if acted.Next == "" {
				break
			}
			req.Cursor = acted.Next
		}
		assert.EqualValues(f, 2*n, ran.Load())
	})
}

func TestRetryKeepsTheOrderOfJobs(t *testing.T) {
	inspectEach(t, []view{ofQueue}, func(f *inspected) {
		var ids []string
		for k := range 5 {
			ids = append(ids, fmt.Sprintf("bad %d", k))
			f.put(f.fail(ids[k], "alpha"))
		}
		f.wait(ids...)
		_, err := f.SetControl(f.ctx, f.name, management.ControlChange{Paused: new(true)})
		require.NoError(f, err)
		acted, err := f.Act(f.ctx, management.ActRequest{
			Action: management.Action{Kind: management.Retry}, Filter: management.JobFilter{IDPattern: "bad ?"}, Limit: 10,
		})
		require.NoError(f, err)
		require.Equal(f, management.Acted{Done: 5}, acted)
		found, err := f.FindJobs(f.ctx, management.JobFilter{States: []amboy.JobState{amboy.StatePending}}, management.PageRequest{})
		require.NoError(f, err)
		var order []string
		for _, j := range found.Jobs {
			order = append(order, j.ID)
		}
		assert.Equal(f, ids, order)
	})
}

// If two jobs take the same scope when they are put, only one of them can run again.
func TestRetryOfJobsThatTakeTheSameScope(t *testing.T) {
	inspectEach(t, []view{ofQueue}, func(f *inspected) {
		_, err := f.SetControl(f.ctx, f.name, management.ControlChange{Paused: new(true)})
		require.NoError(f, err)
		for _, id := range []string{"first", "second", "third"} {
			j := newTask(id, "alpha")
			if id != "third" {
				j.SetScopes([]string{"ledger"})
				j.SetEnqueueAllScopes(true)
			}
			f.put(j)
			f.act(id, management.Action{Kind: management.Cancel})
		}
		req := management.ActRequest{
			Action: management.Action{Kind: management.Retry}, Limit: 10, DryRun: true,
			Filter: management.JobFilter{Queues: []string{f.name}, States: []amboy.JobState{amboy.StateCanceled}},
		}
		predicted, _ := f.actAll(req)
		req.DryRun = false
		did, _ := f.actAll(req)
		assert.Equal(f, management.Acted{Done: 2, Skipped: 1}, did)
		assert.Equal(f, predicted, did)

		var notAllowed *management.StateError
		_, err = f.ActOn(f.ctx, f.name, "second", management.Action{Kind: management.Retry})
		require.ErrorAs(f, err, &notAllowed)
		assert.Contains(f, notAllowed.Rule, "scope")
	})
}
