package amboy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
)

func TestRetryHandlerOptionsValidate(t *testing.T) {
	defaults := amboy.RetryHandlerOptions{
		MaxRetryAttempts: 10, MaxRetryTime: time.Minute, RetryBackoff: time.Second, NumWorkers: 1, MaxCapacity: 4096,
	}
	chosen := amboy.RetryHandlerOptions{
		MaxRetryAttempts: 1, MaxRetryTime: 2, RetryBackoff: 3, NumWorkers: 4, MaxCapacity: 5,
	}
	unlimited := defaults
	unlimited.MaxCapacity = -1

	for _, test := range []struct {
		name       string
		opts, want amboy.RetryHandlerOptions
	}{
		{"defaults", amboy.RetryHandlerOptions{}, defaults},
		{"chosen", chosen, chosen},
		{"without a limit", amboy.RetryHandlerOptions{MaxCapacity: -1}, unlimited},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.NoError(t, test.opts.Validate())
			assert.Equal(t, test.want, test.opts)
			assert.Equal(t, test.want.MaxCapacity == -1, test.opts.IsUnlimitedMaxCapacity())
		})
	}
}

func TestRetryHandlerOptionsValidateRefusesNegatives(t *testing.T) {
	for _, test := range []struct {
		opts amboy.RetryHandlerOptions
		want []string
	}{
		{amboy.RetryHandlerOptions{MaxRetryAttempts: -1}, []string{"MaxRetryAttempts must not be negative (is -1)"}},
		{amboy.RetryHandlerOptions{MaxRetryTime: -time.Second}, []string{"MaxRetryTime must not be negative (is -1s)"}},
		{amboy.RetryHandlerOptions{RetryBackoff: -time.Second}, []string{"RetryBackoff must not be negative (is -1s)"}},
		{amboy.RetryHandlerOptions{NumWorkers: -3}, []string{"NumWorkers must not be negative (is -3)"}},
		{amboy.RetryHandlerOptions{MaxCapacity: -2}, []string{"MaxCapacity", "(is -2)"}},
		{amboy.RetryHandlerOptions{NumWorkers: -1, MaxCapacity: -2}, []string{"NumWorkers", "MaxCapacity"}},
	} {
		before := test.opts
		err := test.opts.Validate()
		for _, want := range test.want {
			require.ErrorContains(t, err, want)
		}
		assert.Equal(t, before, test.opts, "a refusal changes nothing")
	}
}
