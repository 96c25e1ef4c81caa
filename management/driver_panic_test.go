package management_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// broken is a driver that panics when jobs are counted, and when a stored schedule is read by its
// name if isBroken is true.
type broken struct {
	driver.Driver
	isBroken bool
}

func (*broken) Count(context.Context, driver.Query, int) (int, error) { panic("broken") }

func (b *broken) Notes(ctx context.Context, req driver.NoteRequest) ([]driver.Note, error) {
	if b.isBroken && req.Kind == "stored-schedule" {
		panic("broken")
	}
	return b.Driver.Notes(ctx, req)
}

func TestAPanicOfADriverEndedTheProcess(t *testing.T) {
	var panicked *amboy.PanicError
	t.Run("that counted jobs by their states", func(t *testing.T) {
		i, err := management.NewStoreInspector(&broken{Driver: newMemory(t)})
		require.NoError(t, err)
		_, err = i.CountStates(t.Context(), management.StateCountRequest{})
		require.ErrorAs(t, err, &panicked)
	})
	t.Run("that ran stored schedules", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := &broken{Driver: newMemory(t)}
			q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1})
			require.NoError(t, err)
			defer q.Close(ended())
			i, err := management.NewInspector(q)
			require.NoError(t, err)
			_, err = managerOf(t, i).CreateSchedule(t.Context(), "", "report", hourly())
			require.NoError(t, err)
			time.Sleep(time.Hour) // fake time
			runner, err := management.NewScheduleRunner(i)
			require.NoError(t, err)
			store.isBroken = true
			_, err = runner.PutDue(t.Context())
			require.ErrorAs(t, err, &panicked)
		})
	})
}
