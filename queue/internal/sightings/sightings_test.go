package sightings_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy/queue/internal/sightings"
)

func TestALeaseIsOverWhenItWasObservedForItsWholeLength(t *testing.T) {
	var log sightings.Log[string]
	leases := map[string]time.Duration{"a": 10, "b": 20}
	assert.Empty(t, log.See(100, 105, leases), "the leases may have been renewed just before")
	assert.Empty(t, log.See(114, 114, leases), "the first look ended at 105")
	assert.Equal(t, []string{"a"}, log.See(115, 120, leases))
	assert.ElementsMatch(t, []string{"a", "b"}, log.See(125, 130, leases))
}

func TestARenewedLeaseIsObservedAnew(t *testing.T) {
	var log sightings.Log[string]
	log.See(0, 0, map[string]time.Duration{"a": 10})
	assert.Empty(t, log.See(10, 10, map[string]time.Duration{"a, renewed": 10}))
	assert.Empty(t, log.See(20, 20, map[string]time.Duration{"a": 10}), "the lease was not observed in between")
	assert.Equal(t, []string{"a"}, log.See(30, 30, map[string]time.Duration{"a": 10}))
}

func TestALeaseWithoutLengthMustBeObservedTwice(t *testing.T) {
	var log sightings.Log[string]
	assert.Empty(t, log.See(0, 0, map[string]time.Duration{"a": 0}))
	assert.Equal(t, []string{"a"}, log.See(0, 0, map[string]time.Duration{"a": 0}))
}
