package amboy_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
)

func TestErrorsOfAnAttemptWereStoredWhateverTheirSize(t *testing.T) {
	small := amboy.JobStatusInfo{ErrorCount: 1, Errors: []string{strings.Repeat("x", amboy.MaxErrorBytes)}}
	before := small
	assert.False(t, small.Bound())
	assert.Equal(t, before, small)

	for name, errs := range map[string][]string{
		"one":         {strings.Repeat("é", amboy.MaxErrorBytes)},
		"two":         {strings.Repeat("é", amboy.MaxErrorBytes), "short and last"},
		"long last":   {"first", strings.Repeat("é", amboy.MaxErrorBytes)},
		"many":        strings.Split(strings.Repeat(strings.Repeat("e", 1000)+"\n", 1000)+"last", "\n"),
		"very many":   strings.Split(strings.Repeat("e\n", 1<<17)+"last", "\n"),
		"of 17 MB":    {strings.Repeat("x", 17<<20)},
		"long middle": {"first", strings.Repeat("x", 17<<20), "last"},
	} {
		t.Run(name, func(t *testing.T) {
			given := append([]string(nil), errs...)
			status := amboy.JobStatusInfo{ErrorCount: len(errs), Errors: errs}
			require.True(t, status.Bound())
			assert.LessOrEqual(t, len(strings.Join(status.Errors, "")), amboy.MaxErrorBytes)
			assert.Equal(t, given, errs, "the slice is the caller's")
			assert.Equal(t, len(errs), status.ErrorCount)
			last, want := status.Errors[len(status.Errors)-1], errs[len(errs)-1]
			if len(want) < 1000 {
				assert.Equal(t, want, last)
			} else {
				assert.Equal(t, want[:1000], last[:1000])
				assert.Contains(t, last, "bytes in all")
			}
			again := status
			assert.False(t, again.Bound())
		})
	}
}

func TestAttemptErrorsThatAJobSetItselfAreBounded(t *testing.T) {
	status := amboy.JobStatusInfo{DroppedErrors: 1}
	for i := range 2 * amboy.MaxAttemptErrors {
		status.Attempts = append(status.Attempts, amboy.AttemptError{
			Attempt: i, Error: strings.Repeat("e", 1<<20), Stack: strings.Repeat("s", 1<<20),
		})
	}
	require.True(t, status.Bound())
	require.Len(t, status.Attempts, amboy.MaxAttemptErrors)
	assert.Equal(t, 1+amboy.MaxAttemptErrors, status.DroppedErrors)
	assert.Equal(t, 0, status.Attempts[0].Attempt)
	assert.Equal(t, 2*amboy.MaxAttemptErrors-1, status.Attempts[amboy.MaxAttemptErrors-1].Attempt)
	for _, e := range status.Attempts {
		assert.Len(t, e.Error, amboy.MaxAttemptErrorSize)
		assert.Len(t, e.Stack, amboy.MaxAttemptStackSize)
	}
	assert.False(t, status.Bound())
}

func TestALogThatAJobSetItselfWasStoredWhateverItsSize(t *testing.T) {
	progress := amboy.JobProgress{Message: "half", Log: []amboy.LogLine{{Time: someTime, Text: "one"}}}
	assert.False(t, progress.Bound())
	progress.Message = strings.Repeat("m", 2<<20)
	for range 3000 {
		progress.Log = append(progress.Log, amboy.LogLine{Time: someTime, Text: strings.Repeat("l", 1000)})
	}
	progress.Log = append(progress.Log, amboy.LogLine{Time: someTime, Text: "last"})
	require.True(t, progress.Bound())
	size := len(progress.Message)
	for _, line := range progress.Log {
		size += len(line.Text)
	}
	assert.LessOrEqual(t, size, amboy.MaxProgressBytes)
	assert.Equal(t, "last", progress.Log[len(progress.Log)-1].Text)
	assert.Regexp(t, `^\(\d+ earlier lines were cut\)$`, progress.Log[0].Text)
	assert.Positive(t, progress.DroppedLines)
	assert.False(t, progress.Bound())
}
