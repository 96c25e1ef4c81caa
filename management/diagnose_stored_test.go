package management_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
)

// A stored schedule whose jobs are not put is found like one in code.
func TestADiagnosisDidNotSeeThatStoredSchedulesFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: newMemory(t), CloseDriver: true, NumWorkers: 1})
		require.NoError(t, err)
		defer q.Close(ended())
		require.NoError(t, q.Start(t.Context()))
		i, err := management.NewInspector(q)
		require.NoError(t, err)
		s := managerOf(t, i)
		minutely := management.ScheduleSpec{Every: management.Duration(time.Minute), ScheduledJob: management.ScheduledJob{Type: "alpha"}}
		_, err = s.CreateSchedule(t.Context(), "", "digest", minutely)
		require.NoError(t, err)
		_, err = s.CreateSchedule(t.Context(), "", "paused", minutely)
		require.NoError(t, err)
		_, err = s.PauseSchedule(t.Context(), "", "paused", true)
		require.NoError(t, err)
		of := func(kind management.FindingKind) (found []management.Finding) {
			diagnosis, failure := i.(management.Diagnostician).Diagnose(t.Context())
			require.NoError(t, failure)
			for _, f := range diagnosis.Findings {
				if f.Kind == kind {
					found = append(found, f)
				}
			}
			return found
		}
		time.Sleep(4 * time.Minute) // fake time
		assert.Empty(t, of(management.MissedSchedule))
		time.Sleep(3 * time.Minute)
		missed := of(management.MissedSchedule)
		require.Len(t, missed, 1)
		assert.Equal(t, management.Critical, missed[0].Severity)
		assert.Equal(t, management.Subject{InQueue: true, Schedule: "digest"}, missed[0].Subject)
		assert.Equal(t, "amboy schedules show '' digest", missed[0].Command)

		runner, err := management.NewScheduleRunner(i)
		require.NoError(t, err)
		_, err = runner.PutDue(t.Context())
		require.NoError(t, err)
		assert.Empty(t, of(management.MissedSchedule))
		assert.Empty(t, of(management.FailingSchedule))

		_, err = i.SetControl(t.Context(), "", management.ControlChange{Draining: new(true)})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		_, err = runner.PutDue(t.Context())
		require.NoError(t, err)
		failing := of(management.FailingSchedule)
		require.Len(t, failing, 1)
		assert.Equal(t, management.Subject{InQueue: true, Schedule: "digest"}, failing[0].Subject)
		assert.Contains(t, failing[0].Detail, "draining")
		assert.Empty(t, of(management.MissedSchedule))
	})
}
