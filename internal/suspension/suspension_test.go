package suspension_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy/internal/suspension"
)

// TestNothingIsSuspendedWhileATestRuns can't suspend the machine; it checks that the time
// that a test takes does not count.
func TestNothingIsSuspendedWhileATestRuns(t *testing.T) {
	before := suspension.Total()
	for range 1000 {
		assert.InDelta(t, before, suspension.Total(), float64(time.Second))
	}
}
