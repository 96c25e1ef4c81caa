package pool_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/pool"
)

func TestNoopRunsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFakeQueue()
		q.put(3, doNothing)
		r := pool.NewNoop()
		require.NoError(t, r.SetQueue(q))
		start(t, r)
		synctest.Wait()
		assert.Len(t, q.jobs, 3)
	})
}
