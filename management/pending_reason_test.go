package management_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
)

// The description of a job that waited in a paused queue said only that it was pending.
func TestAPendingJobOfAPausedQueueHadNoReason(t *testing.T) {
	inspectEach(t, allViews, func(f *inspected) {
		_, err := post.Put(f.ctx, f.queue, letter{To: "bob"}, job.In(time.Hour), job.Scopes()) // makes the queue known
		require.NoError(f, err)
		paused := "queue is paused"
		if f.name != "" { // the audit list has the entries of each queue that has a name
			paused += " since " + time.Now().UTC().Format("2006")
		}
		for _, test := range []struct {
			change management.ControlChange
			want   string
		}{
			{management.ControlChange{Paused: new(true)}, paused},
			{management.ControlChange{Paused: new(false), Rate: &amboy.Rate{}}, "the rate of the queue is 0"},
			{
				management.ControlChange{NoRate: true, TypeLimit: &management.TypeLimitChange{
					Type: post.Type().Name, TypeLimit: amboy.TypeLimit{Rate: &amboy.Rate{}},
				}},
				"the rate of type \"" + post.Type().Name + "\" is 0",
			},
		} {
			_, err = f.SetControl(management.WithActor(f.ctx, "ann"), f.name, test.change)
			require.NoError(f, err)
			id, err := post.Put(f.ctx, f.queue, letter{To: "ann"}, job.Scopes())
			require.NoError(f, err)
			reason := f.job(id).Reason
			assert.Contains(f, reason, test.want)
			assert.Equal(f, test.change.Paused != nil && *test.change.Paused && f.name != "", strings.HasSuffix(reason, " by ann"), reason)
			page, err := f.FindJobs(f.ctx, management.JobFilter{States: []amboy.JobState{amboy.StatePending}, IDs: []string{id}}, management.PageRequest{})
			require.NoError(f, err)
			require.Len(f, page.Jobs, 1)
			assert.Equal(f, reason, page.Jobs[0].Reason)
		}
	})
}
