package queue_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/batch"
	"github.com/mongodb/amboy/job"
)

// runsKey is the context key of the number of runs of each job.
type runsKey struct{}

var counted = job.DefineResult("queue_test.counted", 1, func(ctx context.Context, name string) (string, error) {
	n, _ := ctx.Value(runsKey{}).(*sync.Map).LoadOrStore(name, new(int))
	*n.(*int)++
	return name, nil
})

// The batch was put again because its marker could not be read.
func TestABatchThatWasPutAgainWhileReadsFailedRanForgottenJobsAgain(t *testing.T) {
	onDurable(t, func(t *testing.T, store *spy) {
		q := newTestEngine(t, store, 1)
		defer q.Close(context.Background())
		var runs sync.Map
		require.NoError(t, q.Start(context.WithValue(t.Context(), runsKey{}, &runs)))
		putBatch := func() error {
			b, err := batch.New("import")
			require.NoError(t, err)
			for name, keep := range map[string]time.Duration{"short": time.Minute, "long": 0} {
				j, invalid := counted.New(name, job.ID(name), job.Retention(amboy.Retention{Succeeded: keep}))
				require.NoError(t, invalid)
				require.NoError(t, b.Add(j))
			}
			_, err = b.Put(t.Context(), q)
			return err
		}
		require.NoError(t, putBatch())
		drain(t, q)
		pass(time.Hour)
		store.fail("Get")
		require.ErrorIs(t, putBatch(), errCut)
		_, err := batch.Open(t.Context(), q, "import")
		require.ErrorIs(t, err, errCut)
		store.heal()
		drain(t, q)
		n, _ := runs.Load("short")
		assert.Equal(t, 1, *n.(*int))
		_, err = batch.Open(t.Context(), q, "import")
		require.NoError(t, err)
	})
}

func TestAJobDidNotExistWhileReadsFailed(t *testing.T) {
	onDurable(t, func(t *testing.T, store *spy) {
		q := newTestEngine(t, store, 1)
		defer q.Close(context.Background())
		id, err := counted.Put(t.Context(), q, "one")
		require.NoError(t, err)
		store.fail("Get")
		_, err = counted.Wait(t.Context(), q, id)
		require.ErrorIs(t, err, errCut)
		_, err = counted.Result(t.Context(), q, id)
		require.ErrorIs(t, err, errCut)
		store.heal()
		_, err = counted.Result(t.Context(), q, "none")
		assert.True(t, amboy.IsJobNotFoundError(err))
	})
}
