package queue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// inTime calls a function on a goroutine of its own, which the function may end, and fails the test if
// that takes long.
func inTime(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		require.FailNow(t, "it did not return")
	}
}
