package aside_test

import (
	"context"
	"net/http"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy/internal/aside"
)

func TestDoReturnsAfterTheFunction(t *testing.T) {
	called := false
	aside.Do(func() { called = true })
	assert.True(t, called)
}

func TestDoPanicsAsTheFunctionDoes(t *testing.T) {
	defer func() {
		value := recover()
		assert.Contains(t, value, "broken")
		assert.Contains(t, value, "aside_test.go", "the stack is that of the function")
	}()
	aside.Do(func() { panic("broken") })
}

// net/http logs no panic with this very value.
func TestDoAbortsARequest(t *testing.T) {
	assert.PanicsWithValue(t, http.ErrAbortHandler, func() { aside.Do(func() { panic(http.ErrAbortHandler) }) })
}

func TestOnlyCallsThatKeepTheStackSmallUseAnotherGoroutine(t *testing.T) {
	exits := func(ctx context.Context) (hasExited bool) {
		hasExited = true
		done := make(chan struct{})
		go func() {
			defer close(done)
			aside.DoIfSmall(ctx, runtime.Goexit)
			hasExited = false
		}()
		<-done
		return hasExited
	}
	assert.True(t, exits(t.Context()), "the goroutine of the caller")
	assert.False(t, exits(aside.Small(t.Context())), "another one")
}

func BenchmarkDo(b *testing.B) {
	for b.Loop() {
		aside.Do(func() { deep(40) })
	}
}

func BenchmarkDirect(b *testing.B) {
	for b.Loop() {
		deep(40)
	}
}

//go:noinline
func deep(n int) byte {
	var frame [128]byte
	if n > 0 {
		frame[n] = deep(n - 1)
	}
	return frame[n/2]
}
