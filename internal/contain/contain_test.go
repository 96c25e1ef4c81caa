package contain_test

import (
	"errors"
	"io"
	"net/http"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
)

func TestPanicReturnsTheErrorOfTheFunction(t *testing.T) {
	require.NoError(t, contain.Panic(func() error { return nil }))
	require.ErrorIs(t, contain.Panic(func() error { return io.EOF }), io.EOF)
}

func TestPanicReturnsAPanicAsAnErrorWithItsStack(t *testing.T) {
	err := contain.Panic(func() error { panic(errors.New("broken")) })
	var panicked *amboy.PanicError
	require.ErrorAs(t, err, &panicked)
	require.ErrorContains(t, err, "broken")
	assert.Contains(t, string(panicked.Stack), "contain_test.go")
}

func TestBrokenReturnsTheErrorOfTheFunction(t *testing.T) {
	never := func(error) error { panic("not broken") }
	require.NoError(t, contain.Broken(func() error { return nil }, never))
	require.ErrorIs(t, contain.Broken(func() error { return io.EOF }, never), io.EOF)
}

func TestBrokenHandlesAPanicAndTheEndOfTheGoroutine(t *testing.T) {
	err := contain.Broken(func() error { panic(io.EOF) }, func(broken error) error {
		var panicked *amboy.PanicError
		require.ErrorAs(t, broken, &panicked)
		return panicked.Unwrap()
	})
	require.ErrorIs(t, err, io.EOF)

	exited := make(chan error, 1)
	go func() {
		_ = contain.Broken(func() error { runtime.Goexit(); return nil }, func(broken error) error {
			exited <- broken
			return nil
		})
	}()
	require.ErrorIs(t, <-exited, contain.ErrExited)
}

func TestAloneReturnsWhatBecameOfTheFunction(t *testing.T) {
	require.NoError(t, contain.Alone(func() error { return nil }))
	require.ErrorIs(t, contain.Alone(func() error { return io.EOF }), io.EOF)
	require.ErrorIs(t, contain.Alone(func() error { runtime.Goexit(); return nil }), contain.ErrExited)
	var panicked *amboy.PanicError
	require.ErrorAs(t, contain.Alone(func() error { panic(io.EOF) }), &panicked)
}

func TestWithStackKeepsTheValueAndAddsTheStack(t *testing.T) {
	assert.Nil(t, contain.WithStack(nil))
	assert.Equal(t, http.ErrAbortHandler, contain.WithStack(http.ErrAbortHandler))
	text := contain.WithStack("broken")
	assert.Contains(t, text, "broken\n")
	assert.Contains(t, text, "contain_test.go")
}
