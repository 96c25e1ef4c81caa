package amboy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/retry"
)

// policyJob has a policy of its own, or nil.
type policyJob struct {
	*testJob
	policy amboy.RetryPolicy
}

func (j policyJob) RetryPolicy() amboy.RetryPolicy { return j.policy }

func TestRetryDelay(t *testing.T) {
	withWait := func(wait time.Duration) *testJob {
		j := newJob("j")
		j.UpdateRetryInfo(amboy.JobRetryOptions{WaitUntil: &wait, CurrentAttempt: new(1)})
		return j
	}
	ofJob, ofQueue := retry.Exponential{}, retry.Fixed{Wait: time.Hour}
	for name, test := range map[string]struct {
		job     amboy.Job
		ofQueue amboy.RetryPolicy
		want    time.Duration
	}{
		"no policy":                        {withWait(0), nil, 0},
		"queue":                            {withWait(0), ofQueue, time.Hour},
		"setting":                          {withWait(time.Minute), ofQueue, time.Minute},
		"job":                              {policyJob{withWait(time.Minute), ofJob}, ofQueue, 2 * time.Second},
		"a job without one":                {policyJob{withWait(time.Minute), nil}, ofQueue, time.Minute},
		"negative":                         {withWait(0), negativePolicy{}, 0},
		"a job with a policy without wait": {policyJob{withWait(time.Minute), retry.Fixed{}}, ofQueue, 0},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, amboy.RetryDelay(test.job, test.ofQueue))
		})
	}
}

type negativePolicy struct{}

func (negativePolicy) Delay(int) time.Duration { return -time.Second }

func TestOptionsRefuseABadRetryPolicy(t *testing.T) {
	opts := amboy.RetryHandlerOptions{RetryPolicy: retry.Fixed{Wait: -time.Second}}
	err := opts.Validate()
	var invalid *retry.InvalidPolicyError
	require.ErrorAs(t, err, &invalid)
	require.ErrorContains(t, err, "RetryPolicy: invalid retry policy: Fixed.Wait must not be negative (is -1s)")
	require.NoError(t, amboy.ValidateRetryPolicy(nil))
	require.NoError(t, amboy.ValidateRetryPolicy(negativePolicy{}), "a policy without Validate is accepted")
}
