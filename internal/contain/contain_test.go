package contain_test

import (
	"errors"
	"io"
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
