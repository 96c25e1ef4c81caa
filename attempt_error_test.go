package amboy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
)

func TestAddErrorRecordsTheAttempt(t *testing.T) {
	var status amboy.JobStatusInfo
	status.AddError(nil, 0, someTime)
	assert.Equal(t, amboy.JobStatusInfo{}, status, "nil does nothing")

	status.AddError(errors.New("first"), 0, someTime)
	status.AddError(errors.New("second"), 3, someTime.Add(time.Second))
	assert.Equal(t, amboy.JobStatusInfo{
		ErrorCount: 2,
		Errors:     []string{"first", "second"},
		Attempts: []amboy.AttemptError{
			{Attempt: 0, At: someTime, Error: "first"},
			{Attempt: 3, At: someTime.Add(time.Second), Error: "second"},
		},
	}, status)
}

func TestABookkeepingErrorIsNotOneOfTheJob(t *testing.T) {
	var status amboy.JobStatusInfo
	status.AddBookkeepingError(nil, 0, someTime)
	assert.Equal(t, amboy.JobStatusInfo{}, status, "nil does nothing")

	status.AddError(errors.New("no route"), 1, someTime)
	status.AddBookkeepingError(&amboy.PanicError{Value: "policy", Stack: []byte("main.go")}, 1, someTime)
	assert.Equal(t, amboy.JobStatusInfo{
		ErrorCount: 1,
		Errors:     []string{"no route"},
		Attempts: []amboy.AttemptError{
			{Attempt: 1, At: someTime, Error: "no route"},
			{Attempt: 1, At: someTime, Error: "panic: policy", Stack: "main.go", Bookkeeping: true},
		},
	}, status)
}

func TestAddErrorKeepsTheFirstAndTheLatest(t *testing.T) {
	const dropped = 5
	var status amboy.JobStatusInfo
	for i := range amboy.MaxAttemptErrors + dropped {
		status.AddError(fmt.Errorf("error %d", i), i, someTime)
	}

	assert.Equal(t, amboy.MaxAttemptErrors+dropped, status.ErrorCount)
	assert.Equal(t, dropped, status.DroppedErrors)
	require.Len(t, status.Attempts, amboy.MaxAttemptErrors)
	for i, attempt := range status.Attempts {
		want := i
		if i >= amboy.MaxAttemptErrors/2 {
			want = i + dropped
		}
		assert.Equal(t, amboy.AttemptError{Attempt: want, At: someTime, Error: fmt.Sprintf("error %d", want)}, attempt)
	}
}

func TestAddErrorChangesNoCopy(t *testing.T) {
	var status amboy.JobStatusInfo
	for i := range amboy.MaxAttemptErrors {
		status.AddError(errPlain, i, someTime)
	}
	copied := status
	status.AddError(errPlain, amboy.MaxAttemptErrors, someTime)
	for i, attempt := range copied.Attempts {
		assert.Equal(t, i, attempt.Attempt)
	}
}

func TestAddErrorCutsLongMessages(t *testing.T) {
	const size = amboy.MaxAttemptErrorSize
	for _, test := range []struct {
		name, message string
		cut           bool
	}{
		{"at the bound", strings.Repeat("a", size), false},
		{"beyond the bound", strings.Repeat("a", size+1), true},
		{"two-byte characters", strings.Repeat("é", size), true},
		{"three-byte characters", strings.Repeat("世", size), true},
		{"three-byte characters, one off", "a" + strings.Repeat("世", size), true},
		{"four-byte characters, three off", "abc" + strings.Repeat("🙂", size), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var status amboy.JobStatusInfo
			status.AddError(errors.New(test.message), 0, someTime)

			assert.Equal(t, []string{test.message}, status.Errors, "the attempt's own message is whole")
			kept := status.Attempts[0].Error
			if !test.cut {
				assert.Equal(t, test.message, kept)
				return
			}
			assert.LessOrEqual(t, len(kept), size)
			assert.Greater(t, len(kept), size-utf8.UTFMax, "only the excess is cut")
			assert.True(t, utf8.ValidString(kept))
			text, mark, found := strings.Cut(kept, "… ")
			require.True(t, found)
			assert.True(t, strings.HasPrefix(test.message, text))
			assert.Equal(t, fmt.Sprintf("(%d bytes in all)", len(test.message)), mark)
		})
	}
}

func TestAddErrorKeepsTheStackOfAPanic(t *testing.T) {
	panicked := &amboy.PanicError{Value: "boom", Stack: []byte("main.go:1")}
	var status amboy.JobStatusInfo
	status.AddError(fmt.Errorf("running: %w", panicked), 1, someTime)
	assert.Equal(t, []amboy.AttemptError{
		{Attempt: 1, At: someTime, Error: "running: panic: boom", Stack: "main.go:1"},
	}, status.Attempts)

	panicked.Stack = []byte(strings.Repeat("a", amboy.MaxAttemptStackSize+1))
	status.AddError(panicked, 1, someTime)
	assert.Len(t, status.Attempts[1].Stack, amboy.MaxAttemptStackSize)
}
