package management_test

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue/driver"
)

// connected is a store whose connection has a timer of its own for the deadline of a count.
type connected struct{ driver.Driver }

func (connected) Count(ctx context.Context, _ driver.Query, _ int) (int, error) {
	deadline, _ := ctx.Deadline()
	time.Sleep(time.Until(deadline)) // fake time
	return 3, os.ErrDeadlineExceeded
}

// The timer of the connection may be the first, before the context has ended. Then what was counted until
// then was thrown away, and the request failed.
func TestACountFailedAtTheEndOfItsTime(t *testing.T) {
	const tries = 20 // which timer is the first is a matter of chance
	for range tries {
		synctest.Test(t, func(t *testing.T) {
			i, err := management.NewStoreInspector(connected{newMemory(t)})
			require.NoError(t, err)
			want := management.Count{Count: 3, More: true}
			count, err := i.CountJobs(t.Context(), management.JobFilter{}, 10)
			require.NoError(t, err)
			assert.Equal(t, want, count)
			counts, err := i.CountStates(t.Context(), management.StateCountRequest{Within: time.Second})
			require.NoError(t, err)
			for _, count := range counts {
				assert.Equal(t, want, count.Count)
			}
		})
	}
}

func TestACountFailsIfItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, err := management.NewStoreInspector(connected{newMemory(t)})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = i.CountJobs(ctx, management.JobFilter{}, 10)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	})
}
