package suspension_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy/internal/suspension"
)

// TestNothingIsSuspendedWhileATestRuns checks that running time does not count as
// suspended time. A test can't suspend the machine.
func TestNothingIsSuspendedWhileATestRuns(t *testing.T) {
	before := suspension.Total()
	for range 1000 {
		assert.InDelta(t, before, suspension.Total(), float64(time.Second))
	}
}
