package lifecycle

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// steppedClock is a wall clock that a test sets.
type steppedClock struct{ by atomic.Int64 }

func (c *steppedClock) now() time.Time { return time.Now().Round(0).Add(time.Duration(c.by.Load())) }

func TestATimeThatComesByAStepOfTheClockIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &steppedClock{}
		var fired []time.Time
		timer := &WakeTimer{Now: clock.now}
		timer.Fire = func() { fired = append(fired, time.Now()) }
		defer timer.Stop()
		timer.Set(clock.now().Add(8 * time.Hour))
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Empty(t, fired)
		clock.by.Store(int64(9 * time.Hour))
		stepped := time.Now()
		time.Sleep(time.Minute)
		synctest.Wait()
		if assert.Len(t, fired, 1) {
			assert.LessOrEqual(t, fired[0].Sub(stepped), longestSleep)
		}
	})
}

func TestATimerThatWasSetBeforeAStepBackKeepsEarlierTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &steppedClock{}
		fired := 0
		timer := &WakeTimer{Now: clock.now}
		timer.Fire = func() { fired++ }
		defer timer.Stop()
		timer.Set(clock.now().Add(time.Minute))
		clock.by.Store(-int64(8 * time.Hour))
		timer.Set(clock.now().Add(time.Second))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Equal(t, 1, fired)
	})
}
