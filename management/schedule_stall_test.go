package management_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
)

// firstTicks are the IDs of the jobs of the schedule report in the first minutes.
func firstTicks(n int) []string {
	minutes := make([]int, n)
	for i := range minutes {
		minutes[i] = i + 1
	}
	return ticks(minutes...)
}

// A full queue makes Put wait.
func TestAFullQueueStoppedTheStoredSchedulesOfOtherQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := memory.New(memory.Options{Capacity: 1, KeepFinished: 1000})
		require.NoError(t, err)
		w := newScheduleWorld(t, store)
		for n := range 20 {
			tenant := string(rune('a' + n))
			require.NoError(t, amboy.Pause(t.Context(), w.open(tenant)))
			w.create(tenant, "report", everyMinute())
		}
		w.open("acme")
		w.create("acme", "report", everyMinute())
		r := w.runner()
		require.NoError(t, r.Start(t.Context()))
		defer r.Close(context.Background())
		time.Sleep(10 * time.Second)
		for n := range 10 {
			time.Sleep(time.Minute)
			require.Equal(t, firstTicks(n+1), w.jobs())
		}
	})
}

// partitioned is a store one of whose calls gets no answer: it returns when its context ends.
type partitioned struct {
	driver.Driver
	mu    sync.Mutex
	hangs string // the name of the call
}

func (p *partitioned) call(ctx context.Context, name string) error {
	p.mu.Lock()
	hangs := p.hangs == name
	if hangs {
		p.hangs = ""
	}
	p.mu.Unlock()
	if !hangs {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (p *partitioned) hang(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hangs = name
}

func (p *partitioned) Notes(ctx context.Context, req driver.NoteRequest) ([]driver.Note, error) {
	if err := p.call(ctx, "Notes "+req.Kind); err != nil {
		return nil, err
	}
	return p.Driver.Notes(ctx, req)
}

func (p *partitioned) Keep(ctx context.Context, notes ...driver.Note) error {
	if err := p.call(ctx, "Keep "+notes[0].Kind); err != nil {
		return err
	}
	return p.Driver.Keep(ctx, notes...)
}

func (p *partitioned) Drop(ctx context.Context, kind string, keys ...string) error {
	if err := p.call(ctx, "Drop "+kind); err != nil {
		return err
	}
	return p.Driver.Drop(ctx, kind, keys...)
}

func TestARunnerOfSchedulesStoppedForGoodWhenACallOfTheStoreGotNoAnswer(t *testing.T) {
	for _, name := range []string{
		"Notes stored-schedule-hint", "Notes stored-schedule", "Notes stored-schedule-state",
		"Keep stored-schedule-hint", "Drop stored-schedule-hint",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &partitioned{Driver: newMemory(t)}
				w := newScheduleWorld(t, store)
				w.open("acme")
				w.create("acme", "report", everyMinute())
				r := w.runner()
				require.NoError(t, r.Start(t.Context()))
				defer r.Close(context.Background())
				time.Sleep(30 * time.Second)
				store.hang(name)
				time.Sleep(3 * time.Minute)
				assert.Equal(t, firstTicks(3), w.jobs())
			})
		})
	}
}
