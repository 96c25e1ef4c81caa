package amboy_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
)

func TestValidateRate(t *testing.T) {
	for _, r := range []amboy.Rate{{}, {PerSecond: 0.1}, {PerSecond: amboy.MinRate, Burst: 1}, {PerSecond: amboy.MaxRate, Burst: amboy.MaxBurst}} {
		require.NoError(t, r.Validate())
	}
	for _, r := range []amboy.Rate{
		{PerSecond: -0.1}, {PerSecond: amboy.MinRate / 2}, {PerSecond: amboy.MaxRate + 1}, {PerSecond: math.NaN()}, {PerSecond: math.Inf(1)},
	} {
		require.ErrorContains(t, r.Validate(), "PerSecond must be 0, or between 0.000001 and 1000000")
	}
	require.ErrorContains(t, amboy.Rate{Burst: -1}.Validate(), "Burst must be between 0 and 1000000 (is -1)")
	require.ErrorContains(t, amboy.Rate{Burst: amboy.MaxBurst + 1}.Validate(), "Burst must be between 0 and 1000000")
}

func TestRateIsDescribedWithItsBurst(t *testing.T) {
	for text, r := range map[string]amboy.Rate{
		"0/s":                  {Burst: 3},
		"0.1/s, bursts of 1":   {PerSecond: 0.1},
		"19.9/s, bursts of 1":  {PerSecond: 19.9},
		"100/s, bursts of 10":  {PerSecond: 100},
		"100/s, bursts of 250": {PerSecond: 100, Burst: 250},
	} {
		assert.Equal(t, text, r.String())
	}
}

func TestQueueIsStoppedWhilePausedOrAtARateOfZero(t *testing.T) {
	assert.False(t, amboy.QueueControl{}.IsStopped())
	assert.False(t, amboy.QueueControl{Rate: &amboy.Rate{PerSecond: 0.1}}.IsStopped())
	assert.True(t, amboy.QueueControl{Rate: &amboy.Rate{}}.IsStopped())
	assert.True(t, amboy.QueueControl{Paused: true}.IsStopped())
}
