package benchmarks

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// workerPool is the interface of the baselines.
type workerPool interface {
	// submit passes a task to a worker. It may wait for room.
	submit(task func()) error
	// close waits until all submitted tasks and all workers have ended.
	close() error
}

// baselines are the pools that the queues are compared with.
var baselines = []struct {
	name  string
	start func(workers int) (workerPool, error)
}{
	{"channel", startChannelPool},
	{"heap", startHeapPool},
	{"pond", startPondPool},
	{"ants", startAntsPool},
}

func TestBaselinesRunEveryTask(t *testing.T) {
	const tasks = 1000
	for _, baseline := range baselines {
		t.Run(baseline.name, func(t *testing.T) {
			var ran atomic.Int64
			p, err := baseline.start(8)
			require.NoError(t, err)
			for range tasks {
				require.NoError(t, p.submit(func() { ran.Add(1) }))
			}
			require.NoError(t, p.close())
			assert.EqualValues(t, tasks, ran.Load())
		})
	}
}
