package memory_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/drivertest"
	"github.com/mongodb/amboy/queue/driver/memory"
)

func TestConformance(t *testing.T) {
	start := time.Now()
	var skipped, stepped atomic.Int64 // for all drivers, by Elapse and by StepClock
	drivertest.Run(t, drivertest.Harness{
		Open: func(t *testing.T) driver.Driver {
			d, err := memory.New(memory.Options{
				KeepFinished: 10_000,
				Elapsed:      func() time.Duration { return time.Since(start) + time.Duration(skipped.Load()) },
				RateElapsed:  func() time.Duration { return time.Since(start) + time.Duration(skipped.Load()+stepped.Load()) },
			})
			require.NoError(t, err)
			return d
		},
		Elapse:    func(_ *testing.T, _ driver.Driver, by time.Duration) { skipped.Add(int64(by)) },
		StepClock: func(_ *testing.T, _ driver.Driver, by time.Duration) { stepped.Add(int64(by)) },
	})
}
