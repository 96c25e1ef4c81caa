package loop_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy/internal/loop"
)

func TestALoopIsStartedOnceAndClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l loop.Loop
		l.Close(t.Context()) // before the start
		ended := false
		run := func(ctx context.Context) {
			<-ctx.Done()
			ended = true
		}
		assert.True(t, l.Start(t.Context(), run))
		assert.False(t, l.Start(t.Context(), run))
		l.Close(t.Context())
		assert.True(t, ended)
		l.Close(t.Context())
		assert.False(t, l.Start(t.Context(), run), "it was closed")
	})
}

func TestCloseOfALoopWaitsAsLongAsItsContextAllows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l loop.Loop
		release := make(chan struct{})
		defer close(release)
		l.Start(t.Context(), func(context.Context) { <-release })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l.Close(ctx)
		assert.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
	})
}
