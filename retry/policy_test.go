package retry_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/retry"
)

func TestDelays(t *testing.T) {
	for name, test := range map[string]struct {
		policy amboy.RetryPolicy
		want   []time.Duration // of attempts 0, 1, …
		spread float64         // the random part
	}{
		"fixed":            {retry.Fixed{Wait: 3 * time.Second}, []time.Duration{3 * time.Second, 3 * time.Second}, 0},
		"at once":          {retry.Fixed{}, []time.Duration{0, 0}, 0},
		"exponential":      {retry.Exponential{}, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}, 0},
		"slow exponential": {retry.Exponential{Base: time.Minute, Factor: 1.5}, []time.Duration{time.Minute, 90 * time.Second}, 0},
		"capped":           {retry.Exponential{Max: 3 * time.Second}, []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second}, 0},
		"river":            {retry.Polynomial{}, []time.Duration{time.Second, 16 * time.Second, 81 * time.Second, 256 * time.Second}, 0.1},
		"capped river":     {retry.Polynomial{Unit: time.Minute, Max: time.Hour}, []time.Duration{time.Minute, 16 * time.Minute, time.Hour, time.Hour}, 0.1},
		// From the table in Sidekiq's wiki: the first wait is 15 to 25 seconds.
		"sidekiq": {retry.Sidekiq{}, []time.Duration{20 * time.Second, 26 * time.Second, 46 * time.Second}, 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			for attempt, want := range test.want {
				assert.InDelta(t, want, test.policy.Delay(attempt), test.spread*float64(want)+1, "attempt %d", attempt)
			}
		})
	}
}

// randomDuration returns durations of all orders of magnitude.
func randomDuration(random *rand.Rand) time.Duration {
	return time.Duration(random.Int64() >> random.IntN(62))
}

// TestDelaysStayInTheirBounds checks the documented bounds of each wait for random
// policies.
func TestDelaysStayInTheirBounds(t *testing.T) {
	random := rand.New(rand.NewPCG(5, uint64(time.Now().UnixNano())))
	limit := func(d float64, most time.Duration) float64 {
		if most == 0 {
			most = math.MaxInt64
		}
		return min(d, float64(most))
	}
	for range 20_000 {
		attempt := random.IntN(1 << random.IntN(12))
		most := time.Duration(0)
		if random.IntN(2) == 0 {
			most = randomDuration(random)
		}
		between := func(policy amboy.RetryPolicy, low, high float64) {
			t.Helper()
			got := float64(policy.Delay(attempt))
			const rounding = 1e-9
			require.GreaterOrEqual(t, got, low*(1-rounding)-1, "%+v, attempt %d", policy, attempt)
			require.LessOrEqual(t, got, high*(1+rounding)+1, "%+v, attempt %d", policy, attempt)
			require.GreaterOrEqual(t, got, 0.0)
		}

		e := retry.Exponential{Base: randomDuration(random), Factor: 1 + random.ExpFloat64(), Max: most, Jitter: random.Float64()}
		require.NoError(t, e.Validate())
		if e.Base > 0 {
			wait := limit(float64(e.Base)*math.Pow(e.Factor, float64(attempt)), most)
			between(e, wait*(1-e.Jitter), wait)
		}

		p := retry.Polynomial{Unit: randomDuration(random), Max: most}
		require.NoError(t, p.Validate())
		if p.Unit > 0 {
			wait := float64(p.Unit) * math.Pow(float64(attempt+1), 4)
			between(p, limit(0.9*wait, most), limit(1.1*wait, most))
		}

		n := float64(attempt)
		shortest := (math.Pow(n, 4) + 15) * float64(time.Second)
		between(retry.Sidekiq{Max: most}, limit(shortest, most), limit(shortest+10*(n+1)*float64(time.Second), most))

		wait := randomDuration(random)
		between(retry.Fixed{Wait: wait}, float64(wait), float64(wait))
	}
}

func TestJitterUsesItsWholeRange(t *testing.T) {
	low, high := time.Duration(math.MaxInt64), time.Duration(0)
	for range 2000 {
		d := retry.Exponential{Base: time.Hour, Jitter: 0.5}.Delay(0)
		low, high = min(low, d), max(high, d)
	}
	assert.InDelta(t, 30*time.Minute, low, float64(time.Minute))
	assert.InDelta(t, time.Hour, high, float64(time.Minute))
}

func TestValidate(t *testing.T) {
	type validator interface{ Validate() error }
	for name, test := range map[string]struct {
		policy validator
		field  string // the invalid field; empty if the policy is valid
	}{
		"fixed":                {retry.Fixed{Wait: time.Second}, ""},
		"negative wait":        {retry.Fixed{Wait: -1}, "Fixed.Wait"},
		"zero exponential":     {retry.Exponential{}, ""},
		"negative base":        {retry.Exponential{Base: -1}, "Exponential.Base"},
		"negative exponential": {retry.Exponential{Max: -1}, "Exponential.Max"},
		"small factor":         {retry.Exponential{Factor: 0.9}, "Exponential.Factor"},
		"no factor":            {retry.Exponential{Factor: math.NaN()}, "Exponential.Factor"},
		"negative jitter":      {retry.Exponential{Jitter: -0.1}, "Exponential.Jitter"},
		"large jitter":         {retry.Exponential{Jitter: 1.1}, "Exponential.Jitter"},
		"zero polynomial":      {retry.Polynomial{}, ""},
		"negative unit":        {retry.Polynomial{Unit: -1}, "Polynomial.Unit"},
		"negative max":         {retry.Polynomial{Max: -1}, "Polynomial.Max"},
		"zero sidekiq":         {retry.Sidekiq{}, ""},
		"negative sidekiq":     {retry.Sidekiq{Max: -1}, "Sidekiq.Max"},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.policy.Validate()
			if test.field == "" {
				require.NoError(t, err)
				return
			}
			var invalid *retry.InvalidPolicyError
			require.ErrorAs(t, err, &invalid)
			assert.Equal(t, test.field, invalid.Field)
			assert.Contains(t, err.Error(), test.field)
		})
	}
}

func TestPoliciesAreStorable(t *testing.T) {
	want := retry.Exponential{Base: time.Second, Factor: 3, Max: time.Hour, Jitter: 0.25}
	data, err := json.Marshal(want)
	require.NoError(t, err)
	var got retry.Exponential
	require.NoError(t, json.Unmarshal(data, &got))
	assert.Equal(t, want, got)

	data, err = bson.Marshal(want)
	require.NoError(t, err)
	got = retry.Exponential{}
	require.NoError(t, bson.Unmarshal(data, &got))
	assert.Equal(t, want, got)
}

func TestTheWaitAfterTheHighestAttemptIsTheLongest(t *testing.T) {
	for _, p := range []amboy.RetryPolicy{
		retry.Exponential{Max: time.Hour}, retry.Polynomial{Max: time.Hour}, retry.Sidekiq{Max: time.Hour},
	} {
		assert.Equal(t, time.Hour, p.Delay(math.MaxInt), "%T", p)
		assert.LessOrEqual(t, p.Delay(math.MinInt), 30*time.Second, "%T", p)
		assert.Positive(t, p.Delay(math.MinInt), "%T", p)
	}
}
