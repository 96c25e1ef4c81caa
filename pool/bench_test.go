package pool_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/pool"
)

// BenchmarkPool measures the overhead of a pool per job: 8 workers run jobs that do
// nothing.
func BenchmarkPool(b *testing.B) {
	for name, makePool := range map[string]func(int, amboy.Queue) amboy.Runner{
		"local":     pool.NewLocalWorkers,
		"abortable": func(n int, q amboy.Queue) amboy.Runner { return pool.NewAbortablePool(n, q) },
	} {
		b.Run(name, func(b *testing.B) {
			q := newFakeQueue()
			r := makePool(8, q)
			require.NoError(b, r.Start(b.Context()))
			defer r.Close(context.Background())
			// Jobs are reused, so that creating them is not measured.
			const jobs = 64
			for i := range jobs {
				q.ended <- ending{job: newJob(strconv.Itoa(i), doNothing)}
			}
			b.ReportAllocs()
			for b.Loop() {
				q.jobs <- (<-q.ended).job
			}
		})
	}
}
