package management_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
)

// A job that an operator cancels is kept as its queue and the job say, and not for a week.
func TestACanceledJobWasKeptForAWeekWhateverItsRetention(t *testing.T) {
	for name, test := range map[string]struct {
		ofQueue queue.Retention
		ofJob   amboy.Retention
		want    time.Duration // 0 for ever
	}{
		"by default":      {want: queue.DefaultKeepOthers},
		"of the queue":    {ofQueue: queue.Retention{Canceled: time.Hour}, want: time.Hour},
		"for ever":        {ofQueue: queue.Retention{Canceled: queue.KeepForever}},
		"of the job":      {ofQueue: queue.Retention{Canceled: time.Hour}, ofJob: amboy.Retention{Canceled: time.Minute}, want: time.Minute},
		"of another kind": {ofQueue: queue.Retention{Failed: time.Hour}, want: queue.DefaultKeepOthers},
	} {
		t.Run(name, func(t *testing.T) {
			group, err := queue.NewDriverGroup(t.Context(), queue.DriverGroupOptions{
				DefaultQueue: queue.DriverQueueOptions{Driver: newMemory(t), CloseDriver: true, NumWorkers: 1, Retention: test.ofQueue},
			})
			require.NoError(t, err)
			defer closeGroup(t, group)
			q, err := group.Get(t.Context(), "mail")
			require.NoError(t, err)
			for _, id := range []string{"one", "many"} {
				_, err = post.Put(t.Context(), q, letter{To: id}, job.ID(id), job.At(inAnHour()), job.Retention(test.ofJob))
				require.NoError(t, err)
			}
			i, err := management.NewGroupInspector(group)
			require.NoError(t, err)
			cancel := management.Action{Kind: management.Cancel}
			_, err = i.ActOn(t.Context(), "mail", "one", cancel)
			require.NoError(t, err)
			_, err = i.Act(t.Context(), management.ActRequest{Action: cancel, Limit: 10, Filter: management.JobFilter{Queues: []string{"mail"}}})
			require.NoError(t, err)
			for _, id := range []string{"one", "many"} {
				j, err := i.Job(t.Context(), "mail", id)
				require.NoError(t, err)
				require.Equal(t, amboy.StateCanceled, j.State)
				kept := time.Duration(0)
				for _, m := range j.Timeline {
					if m.What == "removed" {
						kept = m.Time.Sub(j.Ended)
					}
				}
				assert.InDelta(t, test.want.Seconds(), kept.Seconds(), 1, id)
			}
		})
	}
}
