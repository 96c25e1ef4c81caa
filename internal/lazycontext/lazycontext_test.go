package lazycontext_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/lazycontext"
)

func TestTimeoutEndsAContextThatIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := lazycontext.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.NoError(t, ctx.Err())
		time.Sleep(time.Second)
		require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
		<-ctx.Done()
		require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
	})
}

func TestTimeoutEndsTheWaitForAContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		ctx, cancel := lazycontext.WithTimeout(t.Context(), time.Second)
		defer cancel()
		<-ctx.Done()
		require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(begin))
	})
}

func TestTimeoutHasTheEarlierDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancelParent := context.WithTimeout(t.Context(), time.Second)
		defer cancelParent()
		parentEnds, _ := parent.Deadline()
		for timeout, want := range map[time.Duration]time.Time{
			time.Minute: parentEnds, time.Millisecond: time.Now().Add(time.Millisecond),
		} {
			ctx, cancel := lazycontext.WithTimeout(parent, timeout)
			got, ok := ctx.Deadline()
			cancel()
			require.True(t, ok)
			assert.Equal(t, want, got)
		}
	})
}

func TestContextEndsWithItsParent(t *testing.T) {
	for name, wait := range map[string]bool{"waited for": true, "not waited for": false} {
		t.Run(name, func(t *testing.T) {
			parent, end := context.WithCancel(t.Context())
			ctx, cancel := lazycontext.WithTimeout(parent, time.Hour)
			defer cancel()
			if wait {
				ctx.Done()
			}
			end()
			require.ErrorIs(t, ctx.Err(), context.Canceled)
			<-ctx.Done()
		})
	}
}

func TestCancelEndsAContext(t *testing.T) {
	for name, wait := range map[string]bool{"waited for": true, "not waited for": false} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := lazycontext.WithTimeout(t.Context(), time.Hour)
			if wait {
				ctx.Done()
			}
			cancel()
			require.ErrorIs(t, ctx.Err(), context.Canceled)
			<-ctx.Done()
			require.ErrorIs(t, ctx.Err(), context.Canceled)
			cancel()
		})
	}
}

func TestDerivedContextsEndWithALazyContext(t *testing.T) {
	ctx, cancel := lazycontext.WithTimeout(t.Context(), time.Hour)
	child, cancelChild := context.WithCancel(ctx)
	defer cancelChild()
	cancel()
	<-child.Done()
	require.ErrorIs(t, child.Err(), context.Canceled)
}

type key struct{}

func TestContextHasTheValuesOfItsParent(t *testing.T) {
	ctx, cancel := lazycontext.WithTimeout(context.WithValue(t.Context(), key{}, 1), time.Hour)
	defer cancel()
	assert.Equal(t, 1, ctx.Value(key{}))
	ctx.Done()
	assert.Equal(t, 1, ctx.Value(key{}))
}

func TestContextIsDerivedWhenItIsFirstWaitedFor(t *testing.T) {
	cause, released := errors.New("cause"), 0
	var end context.CancelCauseFunc
	ctx, cancel := lazycontext.New(t.Context(), func() (context.Context, context.CancelFunc) {
		derived, cancelDerived := context.WithCancelCause(t.Context())
		end = cancelDerived
		return derived, func() {
			released++
			cancelDerived(nil)
		}
	})
	require.NoError(t, ctx.Err())
	require.Nil(t, end)
	ctx.Done()
	ctx.Done()
	end(cause)
	<-ctx.Done()
	require.ErrorIs(t, ctx.Err(), context.Canceled)
	assert.Equal(t, cause, context.Cause(ctx))
	cancel()
	assert.Equal(t, 1, released)
}
