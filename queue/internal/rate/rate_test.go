package rate_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/internal/rate"
)

var rates = []amboy.Rate{
	{PerSecond: amboy.MinRate},
	{PerSecond: amboy.MinRate, Burst: amboy.MaxBurst},
	{PerSecond: 0.1},
	{PerSecond: 1.0 / 3},
	{PerSecond: 3, Burst: 7},
	{PerSecond: 10},
	{PerSecond: 100},
	{PerSecond: 100, Burst: 1},
	{PerSecond: 12_345.678},
	{PerSecond: amboy.MaxRate},
	{PerSecond: amboy.MaxRate, Burst: amboy.MaxBurst},
}

const start = int64(1_700_000_000_000_000_000)

// TestNoPeriodHasMoreStartsThanTheRateAllows takes all tokens, or some of them, at random times.
func TestNoPeriodHasMoreStartsThanTheRateAllows(t *testing.T) {
	for _, r := range rates {
		random := rand.New(rand.NewPCG(1, 2))
		now, bucket := start, rate.Bucket(0)
		type taken struct {
			at int64
			n  int
		}
		var all []taken
		for range 500 {
			now += int64(random.ExpFloat64() * float64(rate.Interval(r)) * 2)
			n := bucket.Tokens(r, now)
			if random.IntN(3) == 0 {
				n = random.IntN(n + 1)
			}
			bucket = bucket.Take(r, now, n)
			all = append(all, taken{now, n})
		}
		for i := range all {
			sum := 0
			for _, later := range all[i:] {
				sum += later.n
				allowed := float64(r.BurstOrDefault()) + r.PerSecond*(time.Duration(later.at-all[i].at)+rate.Tolerance).Seconds()
				if float64(sum) > allowed+1e-3 { // a call of require takes a thousand times as long
					require.Failf(t, "too many starts", "%v: %d, allowed are %v", r, sum, allowed)
				}
			}
		}
	}
}

// Claims that wait as long as Wait returns reach the rate, even if each is a little late.
func TestClaimsAfterTheirWaitReachTheRate(t *testing.T) {
	for _, r := range rates {
		for _, late := range []time.Duration{0, 100 * time.Nanosecond, min(rate.Interval(r)/3, rate.Tolerance/2)} {
			now, bucket, n := start, rate.Bucket(0), 0
			for range 300 {
				now += int64(bucket.Wait(r, now) + late)
				tokens := bucket.Tokens(r, now)
				if late == 0 || r.Burst == 0 {
					require.Positive(t, tokens, "%v", r)
				}
				bucket = bucket.Take(r, now, tokens)
				n += tokens
			}
			assert.InEpsilon(t, r.PerSecond*time.Duration(now-start).Seconds(), n, 0.01, "%v, late by %s", r, late)
		}
	}
}

func TestNewBucketHasOneToken(t *testing.T) {
	for _, r := range rates {
		assert.Equal(t, 1, rate.Bucket(0).Tokens(r, start), "%v", r)
		bucket := rate.Bucket(0).Take(r, start, 1)
		assert.Equal(t, 0, bucket.Tokens(r, start), "%v", r)
	}
}

func TestBucketHoldsABurst(t *testing.T) {
	for _, r := range rates {
		now := start + int64(40*365*24*time.Hour)
		bucket := rate.Bucket(start)
		n := bucket.Tokens(r, now)
		assert.LessOrEqual(t, n, r.BurstOrDefault())
		bucket = bucket.Take(r, now, n)
		assert.LessOrEqual(t, bucket.Tokens(r, now), max(0, r.BurstOrDefault()-n), "%v", r)
	}
}

func TestRateOfZeroHasNoTokensAndNoWait(t *testing.T) {
	assert.Zero(t, rate.Bucket(0).Tokens(amboy.Rate{}, start))
	assert.Zero(t, rate.Bucket(0).Wait(amboy.Rate{}, start))
}

// The clock is set back and forward between claims.
func TestAChangedClockStopsNoClaimsAndAllowsNoMore(t *testing.T) {
	r := amboy.Rate{PerSecond: 10, Burst: 3}
	for _, by := range []time.Duration{-time.Hour, -500 * time.Millisecond, time.Hour} {
		now := start
		bucket := rate.Bucket(0).Take(r, now, 1)
		now += int64(by)
		if bucket.IsAhead(now) {
			bucket = rate.Bucket(now)
		}
		assert.LessOrEqual(t, bucket.Tokens(r, now), 3, "set by %s", by)
		bucket = bucket.Take(r, now, bucket.Tokens(r, now))
		wait := bucket.Wait(r, now)
		assert.LessOrEqual(t, wait, time.Second+rate.Interval(r), "set by %s", by)
		assert.Equal(t, 1, bucket.Tokens(r, now+int64(wait)), "set by %s", by)
	}
}
