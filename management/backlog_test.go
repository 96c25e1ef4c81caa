package management_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// readBacklog returns the backlogs of the points of a period that have one.
func readBacklog(t *testing.T, i management.Inspector, last time.Duration, queues ...string) []management.Backlog {
	t.Helper()
	got, err := i.Activity(t.Context(), management.ActivityRequest{Last: last, Queues: queues})
	require.NoError(t, err)
	var backlogs []management.Backlog
	for _, point := range got.Points {
		if point.Backlog != nil {
			backlogs = append(backlogs, *point.Backlog)
		}
	}
	return backlogs
}

// TestQueuesRecordTheirBacklog pauses a queue while jobs arrive, and lets it run again.
func TestQueuesRecordTheirBacklog(t *testing.T) {
	for _, k := range kinds {
		switch k.name {
		case "local", "local in a group", "serializable", "memory in a group":
		default:
			continue // its store does I/O; see TestBacklogOfEachStore
		}
		t.Run(k.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := k.open(t)
				defer q.Close(ended())
				i, err := management.NewInspector(q)
				require.NoError(t, err)
				if k.wider {
					open, ok := wider.Load(q)
					require.True(t, ok)
					i = open.(func(*testing.T) management.Inspector)(t)
				}
				require.NoError(t, q.(amboy.QueueController).Pause(t.Context()))
				later := newTask("later", "alpha")
				later.UpdateTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(time.Hour)})
				require.NoError(t, q.PutMany(t.Context(), []amboy.Job{newTask("a", "alpha"), newTask("b", "alpha"), later}))
				put := time.Now()
				time.Sleep(5*time.Minute - 30*time.Second) // fake time, as below
				require.NoError(t, q.Put(t.Context(), newTask("c", "beta")))
				time.Sleep(time.Minute)

				backlogs := readBacklog(t, i, 10*time.Minute)
				require.Len(t, backlogs, 5, "one for each minute since the first was due")
				for n, b := range backlogs[:4] {
					assert.Equal(t, 2, b.Ready)
					assert.Equal(t, 1, b.Waiting)
					assert.InDelta(t, 60*float64(n+1), b.OldestReady, 21, "samples are taken in the first 20 seconds of a minute")
				}
				last := backlogs[4]
				assert.Equal(t, 3, last.Ready)
				age := time.Since(put).Seconds()
				assert.LessOrEqual(t, last.OldestReady, age)
				assert.Greater(t, last.OldestReady, age-61)

				require.NoError(t, q.(amboy.QueueController).Resume(t.Context()))
				require.True(t, amboy.WaitJob(t.Context(), newTask("later", "alpha"), q))
				time.Sleep(3 * time.Minute)
				backlogs = readBacklog(t, i, 5*time.Minute)
				require.NotEmpty(t, backlogs)
				assert.Equal(t, management.Backlog{}, backlogs[len(backlogs)-1])
				for _, span := range []time.Duration{6 * time.Hour, 30 * 24 * time.Hour} {
					backlogs = readBacklog(t, i, span)
					require.NotEmpty(t, backlogs, span)
					assert.Equal(t, 3, backlogs[0].Ready, "the most in %s", span)
					assert.GreaterOrEqual(t, backlogs[0].OldestReady, last.OldestReady)
				}
				time.Sleep(2 * time.Hour)
				for _, b := range readBacklog(t, i, time.Hour) {
					assert.Equal(t, management.Backlog{}, b)
				}
			})
		})
	}
}

// TestBacklogOfEachStore samples two queues at given times.
func TestBacklogOfEachStore(t *testing.T) {
	for name, on := range map[string]func(*testing.T, func(*patient)){"memory": inMemory, "sqlite": onSQLite, "postgres": onPostgres, "mongodb": onMongo} {
		t.Run(name, func(t *testing.T) {
			on(t, func(p *patient) {
				now := time.Now().UTC()
				created := now.Add(-10 * time.Minute)
				p.insertIn("orphans", "waits", func(r *driver.Record) { r.TimeInfo.Created = created })
				for minute := 5; minute >= 0; minute-- {
					_, err := activity.SampleBacklog(p.Context(), p.Driver, now.Add(-time.Duration(minute)*time.Minute))
					require.NoError(p, err)
				}
				backlogs := readBacklog(p.T, p.inspector, 10*time.Minute, "orphans")
				require.Len(p, backlogs, 6)
				for n, b := range backlogs {
					assert.Equal(p, 1, b.Ready)
					assert.InDelta(p, 60*float64(5+n), b.OldestReady, 0.002)
				}
				all := readBacklog(p.T, p.inspector, 10*time.Minute)
				require.Len(p, all, 6)
				assert.Equal(p, []int{2, 1, 1}, []int{all[5].Ready, all[5].Waiting, all[5].Running})
				assert.InDelta(p, backlogs[5].OldestReady, all[5].OldestReady, 0)
				mail := readBacklog(p.T, p.inspector, 30*24*time.Hour, ill)
				require.NotEmpty(p, mail)
				assert.Equal(p, []int{1, 1, 1}, []int{mail[0].Ready, mail[0].Waiting, mail[0].Running})
			})
		})
	}
}

func TestBacklogOfATypeIsNotKnown(t *testing.T) {
	inMemory(t, func(p *patient) {
		_, err := activity.SampleBacklog(p.Context(), p.Driver, time.Now())
		require.NoError(p, err)
		got, err := p.inspector.Activity(p.Context(), management.ActivityRequest{Types: []string{"alpha"}})
		require.NoError(p, err)
		for _, point := range got.Points {
			assert.Nil(p, point.Backlog)
		}
	})
}

// summed counts the reads of the sums of all queues.
type summed struct {
	driver.Driver
	times *atomic.Int64
}

func (d summed) SumQueues(ctx context.Context, busiest int) (driver.QueueTotals, error) {
	d.times.Add(1)
	return d.Driver.SumQueues(ctx, busiest)
}

func TestOneProcessSamplesTheBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(t)
		defer func() { require.NoError(t, store.Close(context.Background())) }()
		var times atomic.Int64
		var started []amboy.Queue
		var last amboy.Queue
		for range 5 {
			q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: summed{store, &times}, NumWorkers: 1})
			require.NoError(t, err)
			require.NoError(t, q.Start(t.Context()))
			started, last = append(started, q), q
		}
		defer func() {
			for _, q := range started {
				q.Close(ended())
			}
		}()
		time.Sleep(30 * time.Minute) // fake time, as below
		assert.InDelta(t, 3, times.Load(), 1, "without jobs, one each ten minutes")
		times.Store(0)
		require.NoError(t, last.(amboy.QueueController).Pause(t.Context()))
		require.NoError(t, last.Put(t.Context(), newTask("waits", "alpha")))
		time.Sleep(10 * time.Minute)
		assert.InDelta(t, 10, times.Load(), 2)
		i, err := management.NewInspector(last)
		require.NoError(t, err)
		backlogs := readBacklog(t, i, 30*time.Minute)
		assert.GreaterOrEqual(t, len(backlogs), 19, "the first sample comes after ten minutes, and stands for the minutes after it")
		assert.Equal(t, []int{0, 1}, []int{backlogs[0].Ready, backlogs[len(backlogs)-1].Ready})
	})
}

// A process that had just started used to take the turn of another that had sampled in this minute.
func TestAProcessThatStartsTakesNoOthersTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(t)
		defer func() { require.NoError(t, store.Close(context.Background())) }()
		var times atomic.Int64
		open := func() amboy.Queue {
			q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: summed{store, &times}, NumWorkers: 1})
			require.NoError(t, err)
			require.NoError(t, q.Start(t.Context()))
			return q
		}
		first := open()
		defer first.Close(ended())
		require.NoError(t, first.(amboy.QueueController).Pause(t.Context()))
		require.NoError(t, first.Put(t.Context(), newTask("first", "alpha")))
		time.Sleep(3*time.Minute - time.Second) // fake time, as below
		times.Store(0)
		for range 4 {
			q := open()
			defer q.Close(ended()) //nolint:gocritic // There are few.
			require.NoError(t, q.Put(t.Context(), newTask(q.ID(), "alpha")))
		}
		time.Sleep(3 * time.Minute)
		assert.Equal(t, int64(3), times.Load())
	})
}

// TestAQueueThatIsNotAmongTheBusiest has a backlog only where it is known.
func TestAQueueThatIsNotAmongTheBusiest(t *testing.T) {
	inMemory(t, func(p *patient) {
		now := time.Now()
		sample := func() {
			_, err := activity.SampleBacklog(p.Context(), p.Driver, now)
			require.NoError(p, err)
		}
		p.insertIn("small", "only", nil)
		sample()
		assert.Len(p, readBacklog(p.T, p.inspector, time.Hour, "small"), 1)
		assert.Equal(p, []management.Backlog{{}}, readBacklog(p.T, p.inspector, time.Hour, "idle"))
		for n := range activity.MaxBacklogs {
			for _, id := range []string{"a", "b"} {
				p.insertIn(fmt.Sprint("large ", n), id, nil)
			}
		}
		now = now.Add(time.Minute)
		time.Sleep(time.Minute) // fake time
		sample()
		assert.Len(p, readBacklog(p.T, p.inspector, time.Hour, "small"), 1, "it is not known in the second minute")
		assert.Len(p, readBacklog(p.T, p.inspector, time.Hour, "small", "large 7"), 2)
		all := readBacklog(p.T, p.inspector, time.Hour)
		assert.Equal(p, 2+2*activity.MaxBacklogs, all[len(all)-1].Ready)
	})
}
