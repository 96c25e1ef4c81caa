package sleep_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/sleep"
)

func TestForWaitsUntilTheTimeIsOverOrTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		require.NoError(t, sleep.For(ctx, time.Minute))
		assert.Equal(t, time.Minute, time.Since(start))
		require.ErrorIs(t, sleep.For(ctx, time.Hour), context.DeadlineExceeded)
		assert.Equal(t, time.Hour, time.Since(start))
	})
}

// If the time was over too, chance decided whether For returned the error.
func TestForSucceedsAlthoughTheContextHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		require.ErrorIs(t, sleep.For(ctx, 0), context.Canceled)
	}
}
