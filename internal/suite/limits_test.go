package suite_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
)

func TestALimitHoldsAndItsJobsRunInOrder(t *testing.T) {
	onThose(t, func(k kind) bool { return k.name != "amboytest" }, func(f *fixture) {
		var ran journal
		begun, finish := make(chan struct{}, 5), make(chan struct{})
		q := f.open(options{workers: 4})
		for _, id := range []string{"a", "b", "c", "d"} {
			j := f.job(id, func(context.Context, *funcJob) {
				ran.add(id)
				begun <- struct{}{}
				<-finish
			})
			j.SetScopes([]string{amboy.LimitScope("few", 2)})
			f.put(q, j)
		}
		f.put(q, f.job("free", func(context.Context, *funcJob) { begun <- struct{}{} }))
		require.NoError(f, q.Start(f.ctx))
		for range 3 { // a, b, and the job without a limit
			<-begun
		}
		assert.ElementsMatch(f, []string{"a", "b"}, ran.all())
		assert.Equal(f, amboy.StateBlocked, f.state(q, "c"))
		finish <- struct{}{}
		<-begun
		assert.Equal(f, "c", ran.all()[2])
		assert.Equal(f, amboy.StateBlocked, f.state(q, "d"))
		close(finish)
		f.drain(q)
		assert.Equal(f, amboy.StateSucceeded, f.state(q, "d"))
	})
}
