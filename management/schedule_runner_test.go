package management_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/schedule"
)

var (
	scheduleSeed  = flag.Uint64("management.seed", 1, "the seed of TestNoTickIsLostOrPutTwice")
	scheduleHours = flag.Int("management.hours", 1, "how many hours of virtual time TestNoTickIsLostOrPutTwice takes")
)

// counted is the store of all processes. It counts how often each job was put.
type counted struct {
	driver.Driver
	mu   sync.Mutex
	puts map[string]int
}

func (c *counted) Insert(ctx context.Context, records []*driver.Record) ([]error, error) {
	errs, err := c.Driver.Insert(ctx, records)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, r := range records {
		if err == nil && errs[i] == nil {
			c.puts[r.Group+"/"+r.JobID()]++
		}
	}
	return errs, err
}

// mortal is the store as one process sees it. Calls fail at random, before or after they had an
// effect, and some of them are the last of their process.
type mortal struct {
	driver.Driver
	mu     sync.Mutex
	random *rand.Rand
	dead   chan struct{}
	isDead bool
}

var errFault = errors.New("the connection was lost")

// fault returns whether a call has an effect, and its error.
func (m *mortal) fault() (works bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isDead {
		return false, errFault
	}
	works = m.random.IntN(2) == 0
	switch n := m.random.IntN(1000); {
	case n < 3:
		m.isDead = true
		close(m.dead)
		return works, errFault
	case n < 30:
		return works, errFault
	default:
		return true, nil
	}
}

// faulty makes a call that may fail.
func faulty[T any](m *mortal, call func() (T, error)) (result T, err error) {
	works, fault := m.fault()
	if works {
		result, err = call()
	}
	if fault != nil {
		return *new(T), fault
	}
	return result, err
}

func (m *mortal) Insert(ctx context.Context, records []*driver.Record) ([]error, error) {
	return faulty(m, func() ([]error, error) { return m.Driver.Insert(ctx, records) })
}

func (m *mortal) Notes(ctx context.Context, req driver.NoteRequest) ([]driver.Note, error) {
	return faulty(m, func() ([]driver.Note, error) { return m.Driver.Notes(ctx, req) })
}

func (m *mortal) Mark(ctx context.Context, of, name string, at time.Time) (time.Time, error) {
	return faulty(m, func() (time.Time, error) { return m.Driver.Mark(ctx, of, name, at) })
}

func (m *mortal) Keep(ctx context.Context, notes ...driver.Note) error {
	_, err := faulty(m, func() (struct{}, error) {
		// The notes of one call may be stored one by one.
		for i, note := range notes {
			if err := m.Driver.Keep(ctx, note); err != nil {
				return struct{}{}, err
			}
			if i == 0 && len(notes) > 1 {
				if works, err := m.fault(); !works {
					return struct{}{}, err
				}
			}
		}
		return struct{}{}, nil
	})
	return err
}

func (m *mortal) Drop(ctx context.Context, kind string, keys ...string) error {
	_, err := faulty(m, func() (struct{}, error) { return struct{}{}, m.Driver.Drop(ctx, kind, keys...) })
	return err
}

// runMortal runs a process that puts the jobs of schedules until its store says that it is dead,
// or ctx ends. Its clock jumps.
func runMortal(ctx context.Context, t *testing.T, store driver.Driver, random *rand.Rand) {
	m := &mortal{Driver: store, random: rand.New(rand.NewPCG(random.Uint64(), 0)), dead: make(chan struct{})}
	group, err := queue.NewDriverGroup(context.WithoutCancel(ctx), queue.DriverGroupOptions{
		DefaultQueue: queue.DriverQueueOptions{Driver: m, NumWorkers: 1}, TTL: time.Minute, PruneFrequency: time.Minute,
	})
	if err != nil {
		return // a fault
	}
	defer group.Close(ended()) //nolint:errcheck,contextcheck // It is dead.
	i, err := management.NewGroupInspector(group)
	require.NoError(t, err)
	r, err := management.NewScheduleRunner(i)
	require.NoError(t, err)
	var mu sync.Mutex
	var ahead time.Duration
	r.SetClock(func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return time.Now().Add(ahead)
	})
	require.NoError(t, r.Start(ctx))
	defer r.Close(context.WithoutCancel(ctx))
	for {
		select {
		case <-m.dead:
			return
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(1+random.IntN(600)) * time.Second):
			mu.Lock()
			ahead = 0
			if random.IntN(3) == 0 {
				ahead = time.Duration(random.IntN(3600)-2400) * time.Second
			}
			mu.Unlock()
		}
	}
}

// Processes are killed, calls fail, clocks jump and queues are pruned, in virtual time. The job of
// each tick is put, and none is put twice.
func TestNoTickIsLostOrPutTwice(t *testing.T) {
	t.Logf("-management.seed=%d", *scheduleSeed)
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(*scheduleSeed, 0))
		kept, err := memory.New(memory.Options{KeepFinished: 5000})
		require.NoError(t, err)
		store := &counted{Driver: kept, puts: map[string]int{}}
		w := newScheduleWorld(t, store)
		specs := map[string]management.ScheduleSpec{}
		begin := time.Now()
		for n := range 12 {
			tenant, name := fmt.Sprint("tenant", n%5), fmt.Sprint("s", n)
			w.open(tenant)
			spec := everyMinute()
			spec.CatchUp = schedule.CatchUpAll
			switch n % 3 {
			case 0:
				spec.Cron = "*/7 * * * *"
			case 1:
				spec.Cron, spec.Every = "", management.Duration(13*time.Minute+500*time.Millisecond)
			}
			w.create(tenant, name, spec)
			specs[tenant+"/"+name] = spec
		}
		ctx, stop := context.WithCancel(t.Context())
		var living sync.WaitGroup
		var lives atomic.Int64
		for range 3 {
			own := rand.New(rand.NewPCG(random.Uint64(), 0))
			living.Go(func() {
				for ctx.Err() == nil {
					lives.Add(1)
					runMortal(ctx, t, store, own)
					time.Sleep(time.Duration(own.IntN(120)) * time.Second)
				}
			})
		}
		time.Sleep(time.Duration(*scheduleHours) * time.Hour)
		stop()
		living.Wait()
		// A process without faults catches up.
		end := time.Now()
		r := w.runner()
		require.NoError(t, r.Start(t.Context()))
		time.Sleep(2 * time.Hour)
		r.Close(context.Background())

		wanted := 0
		for id, spec := range specs {
			ticks, err := spec.Ticks()
			require.NoError(t, err)
			for at := ticks.Next(begin); at.Before(end); at = ticks.Next(at) {
				wanted++
				assert.Equal(t, 1, store.puts[schedule.TickID(id, at)], schedule.TickID(id, at))
			}
		}
		for id, n := range store.puts {
			assert.Equal(t, 1, n, id)
		}
		t.Logf("%d ticks, %d processes", wanted, lives.Load())
	})
}

// reads counts the calls of a runner.
type reads struct {
	driver.Driver
	notes, writes atomic.Int64
}

func (r *reads) Notes(ctx context.Context, req driver.NoteRequest) ([]driver.Note, error) {
	if req.Kind == "stored-schedule-hint" {
		r.notes.Add(int64(req.Limit))
	}
	return r.Driver.Notes(ctx, req)
}

func (r *reads) Drop(ctx context.Context, kind string, keys ...string) error {
	r.writes.Add(1)
	return r.Driver.Drop(ctx, kind, keys...)
}

// The cost of schedules that are not due does not grow with their number: a look reads one note.
func TestAnIdleRunnerReadsOneNote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &reads{Driver: newMemory(t)}
		w := newScheduleWorld(t, store)
		w.open("acme")
		for n := range 500 {
			spec := everyMinute()
			spec.Cron = "0 12 1 1 *"
			w.create("acme", fmt.Sprint("s", n), spec)
		}
		r := w.runner()
		require.NoError(t, r.Start(t.Context()))
		time.Sleep(time.Hour)
		r.Close(context.Background())
		assert.LessOrEqual(t, store.notes.Load(), int64(722), "one each five seconds")
		assert.Zero(t, store.writes.Load())
		time.Sleep(11 * time.Hour)
		_, err := r.PutDue(t.Context())
		require.NoError(t, err)
		assert.Len(t, w.jobs(), 500)
	})
}
