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
	var skipped atomic.Int64 // by Elapse, for all drivers
	drivertest.Run(t, drivertest.Harness{
		Open: func(t *testing.T) driver.Driver {
			d, err := memory.New(memory.Options{
				KeepFinished: 10_000,
				Elapsed:      func() time.Duration { return time.Since(start) + time.Duration(skipped.Load()) },
			})
			require.NoError(t, err)
			return d
		},
		Elapse: func(_ *testing.T, _ driver.Driver, by time.Duration) { skipped.Add(int64(by)) },
	})
}
