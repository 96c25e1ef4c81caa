package core_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/core"
)

// A job that waits until the year 9999, or has that as its dispatch-by time, made the core ask for a
// Tick in the past, and for another after each Tick: the process never slept.
func TestAJobDueInTheFarFutureKeptTheProcessAwake(t *testing.T) {
	s := newStory(t)
	s.wait(time.Second)
	s.tell(core.DueAt{Time: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)})
	wakes := 0
	for range 100 {
		for _, wake := range all[core.Wake](s.wait(time.Second)) {
			wakes++
			require.Greater(t, wake.At, s.now)
		}
	}
	assert.NotZero(t, wakes)
}
