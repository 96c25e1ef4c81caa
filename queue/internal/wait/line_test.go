package wait_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mongodb/amboy/queue/internal/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// joined returns a line that three waiters have joined, in order.
func joined() (l *wait.Line, first, second, third *wait.Waiter) {
	l = &wait.Line{}
	first, second, third = l.Join(), l.Join(), l.Join()
	return l, first, second, third
}

func TestTake(t *testing.T) {
	l, first, second, third := joined()
	assert.Equal(t, 3, l.Len())
	assert.Same(t, first, l.TakeFirst())
	assert.Same(t, third, l.TakeLast())
	assert.Equal(t, 1, l.Len())
	assert.Same(t, second, l.TakeLast())
	assert.Nil(t, l.TakeLast())
	assert.Nil(t, l.TakeFirst())
	assert.Empty(t, l.TakeAll())

	l, first, second, third = joined()
	assert.Equal(t, []*wait.Waiter{first, second, third}, l.TakeAll())
	assert.Zero(t, l.Len())
}

func TestLeave(t *testing.T) {
	l, first, second, third := joined()
	assert.True(t, l.Leave(second))
	assert.False(t, l.Leave(second))
	assert.Same(t, third, l.TakeLast())
	assert.False(t, l.Leave(third), "a signal is on its way to the waiter")
	assert.Same(t, first, l.TakeLast())
}

func TestWakeBeforeWait(t *testing.T) {
	_, w, _, _ := joined()
	w.Wake()
	require.NoError(t, w.Wait(t.Context()))

	w.Wake()
	w.Drain()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, w.Wait(ctx), context.Canceled, "the signal was drained")

	var nobody *wait.Waiter
	nobody.Wake()
}

func TestWaitBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, first, second, _ := joined()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		time.AfterFunc(time.Millisecond, first.Wake)
		require.NoError(t, first.Wait(ctx))
		assert.Equal(t, time.Millisecond, time.Since(start))
		require.ErrorIs(t, second.Wait(ctx), context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(start))
	})
}

// A reused waiter has no signal of its earlier use, and joining with it allocates nothing.
func TestReuse(t *testing.T) {
	l, w, _, _ := joined()
	l.TakeAll()
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		w.Wake()
		if w.Wait(context.Background()) != nil {
			t.Error("the waiter was not woken")
		}
		l.Reuse(w)
		w = l.Join()
		if !l.Leave(w) {
			t.Error("the waiter was not in the line")
		}
		w = l.Join()
		l.TakeFirst()
	}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, w.Wait(ctx), context.Canceled)
}
