package schedule_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/schedule"
)

// exitingSchedule is a schedule whose Next ends its goroutine once.
type exitingSchedule struct {
	schedule.Schedule
	exits bool
}

func (s *exitingSchedule) Next(after time.Time) time.Time {
	if s.exits {
		s.exits = false
		runtime.Goexit()
	}
	return s.Schedule.Next(after)
}

func TestASchedulerStoppedForGoodWhenItsUserEndedTheGoroutine(t *testing.T) {
	for _, name := range []string{"JobFunc", "Next"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, ran = time.Now(), make(chan time.Duration, 100)
				q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1})
				require.NoError(t, err)
				require.NoError(t, q.Start(t.Context()))
				defer q.Close(context.Background())
				s, err := schedule.New(q, schedule.Options{})
				require.NoError(t, err)
				defer s.Close(context.Background())
				exits := name == "JobFunc"
				ticks := &exitingSchedule{Schedule: every(t, time.Hour)}
				require.NoError(t, s.Add("tell", ticks, func(at time.Time) (amboy.Job, error) {
					if exits {
						exits = false
						runtime.Goexit()
					}
					return tick()(at)
				}, schedule.CatchUpAll))
				ticks.exits = name == "Next"
				require.NoError(t, s.Start(t.Context()))
				time.Sleep(2*time.Hour + 10*time.Second)
				synctest.Wait()
				assert.Len(t, ran, 2)
			})
		})
	}
}

func TestSchedulesOfAllTenantsStoppedForGoodWhenTheListEndedTheGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, ran = time.Now(), make(chan time.Duration, 100)
		group := newLocalPruningGroup(t)
		defer closeGroup(t, group)
		calls := 0
		s, err := schedule.NewTenants(group, func(context.Context) ([]string, error) {
			calls++
			if calls == 2 {
				runtime.Goexit()
			}
			return []string{"a"}, nil
		}, schedule.Options{})
		require.NoError(t, err)
		defer s.Close(context.Background())
		require.NoError(t, s.Add("tell", every(t, time.Hour), func(_ string, at time.Time) (amboy.Job, error) {
			return tick()(at)
		}, schedule.CatchUpNone))
		require.NoError(t, s.Start(t.Context()))
		time.Sleep(2*time.Hour + 10*time.Second)
		synctest.Wait()
		assert.Len(t, ran, 2)
	})
}
