package amboy_test

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy"
)

var someTime = time.Date(2030, 1, 2, 3, 4, 5, 6e6, time.UTC)

func TestNewJobInfo(t *testing.T) {
	j := newJob("a")
	j.SetPriority(7)
	j.AddError(errPlain)
	j.MarkComplete()
	j.UpdateTimeInfo(amboy.JobTimeInfo{Created: someTime, MaxTime: time.Minute})
	j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: ptr(true), MaxAttempts: ptr(3)})

	assert.Equal(t, amboy.JobInfo{
		ID:       "a",
		Type:     amboy.JobType{Name: "test", Version: 1},
		Status:   j.Status(),
		Time:     amboy.JobTimeInfo{Created: someTime, MaxTime: time.Minute},
		Retry:    amboy.JobRetryInfo{Retryable: true, BaseJobID: "a", MaxAttempts: 3},
		State:    amboy.StateFailed,
		Priority: 7,
	}, amboy.NewJobInfo(j))
}

func TestNewJobInfoDerivesTheStateFromTheCurrentTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJob("a")
		j.UpdateTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(time.Minute)})
		assert.Equal(t, amboy.StateScheduled, amboy.NewJobInfo(j).State)
		<-time.After(time.Minute)
		assert.Equal(t, amboy.StatePending, amboy.NewJobInfo(j).State)
	})
}

func TestJobTimeInfoDuration(t *testing.T) {
	for _, test := range []struct {
		name       string
		start, end time.Time
		want       time.Duration
	}{
		{name: "unset"},
		{name: "no end", start: someTime},
		{name: "no start", end: someTime},
		{name: "both", start: someTime, end: someTime.Add(time.Second), want: time.Second},
		{name: "equal", start: someTime, end: someTime},
		{name: "out of order", start: someTime, end: someTime.Add(-time.Second)},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.want, amboy.JobTimeInfo{Start: test.start, End: test.end}.Duration())
		})
	}
}

func TestJobTimeInfoStaleAndDispatchable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		for _, test := range []struct {
			name                string
			offset              time.Duration
			stale, dispatchable bool
		}{
			{"past", -1, true, true},
			{"present", 0, false, true},
			{"future", 1, false, false},
		} {
			times := amboy.JobTimeInfo{WaitUntil: now.Add(test.offset), DispatchBy: now.Add(test.offset)}
			assert.Equal(t, test.stale, times.IsStale(), test.name)
			assert.Equal(t, test.dispatchable, times.IsDispatchable(), test.name)
		}
		assert.False(t, amboy.JobTimeInfo{}.IsStale(), "unset")
		assert.True(t, amboy.JobTimeInfo{}.IsDispatchable(), "unset")
	})
}

func TestJobTimeInfoValidate(t *testing.T) {
	for _, test := range []struct {
		name  string
		times amboy.JobTimeInfo
		field string
	}{
		{name: "unset"},
		{name: "wait until alone", times: amboy.JobTimeInfo{WaitUntil: someTime}},
		{name: "dispatch by alone", times: amboy.JobTimeInfo{DispatchBy: someTime}},
		{name: "equal", times: amboy.JobTimeInfo{WaitUntil: someTime, DispatchBy: someTime}},
		{name: "in order", times: amboy.JobTimeInfo{WaitUntil: someTime, DispatchBy: someTime.Add(1)}},
		{name: "out of order", times: amboy.JobTimeInfo{WaitUntil: someTime.Add(1), DispatchBy: someTime}, field: "wait-until"},
		{name: "max time", times: amboy.JobTimeInfo{MaxTime: 1}},
		{name: "negative max time", times: amboy.JobTimeInfo{MaxTime: -1}, field: "max time"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.times.Validate()
			if test.field == "" {
				require.NoError(t, err)
				return
			}
			var invalid *amboy.InvalidJobError
			require.ErrorAs(t, err, &invalid)
			assert.Equal(t, test.field, invalid.Field)
			assert.NotEmpty(t, invalid.Rule)
		})
	}
}

func TestJobRetryInfoAttempts(t *testing.T) {
	for _, test := range []struct {
		name                 string
		current, maximum     int
		wantMax, wantRemains int
	}{
		{"default", 0, 0, amboy.DefaultMaxAttempts, amboy.DefaultMaxAttempts - 1},
		{"negative", 0, -1, amboy.DefaultMaxAttempts, amboy.DefaultMaxAttempts - 1},
		{"first of one", 0, 1, 1, 0},
		{"first of three", 0, 3, 3, 2},
		{"last of three", 2, 3, 3, 0},
		{"beyond the last", 7, 3, 3, 0},
		{"very many", 0, math.MaxInt, math.MaxInt, math.MaxInt - 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			info := amboy.JobRetryInfo{CurrentAttempt: test.current, MaxAttempts: test.maximum}
			assert.Equal(t, test.wantMax, info.GetMaxAttempts())
			assert.Equal(t, test.wantRemains, info.GetRemainingAttempts())
		})
	}
}

func TestJobRetryInfoShouldRetry(t *testing.T) {
	for _, test := range []struct{ retryable, needsRetry, want bool }{
		{false, false, false},
		{false, true, false},
		{true, false, false},
		{true, true, true},
	} {
		info := amboy.JobRetryInfo{Retryable: test.retryable, NeedsRetry: test.needsRetry}
		assert.Equal(t, test.want, info.ShouldRetry(), "%+v", info)
	}
}

func TestJobRetryInfoOptions(t *testing.T) {
	for name, info := range map[string]amboy.JobRetryInfo{
		"all fields": fullRetryInfo(),
		"no fields":  {},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob("a")
			j.UpdateRetryInfo(amboy.JobRetryOptions{
				Retryable: ptr(true), NeedsRetry: ptr(true), CurrentAttempt: ptr(8), MaxAttempts: ptr(9),
				DispatchBy: ptr(time.Hour), WaitUntil: ptr(time.Hour), Start: ptr(someTime), End: ptr(someTime),
			})
			j.UpdateRetryInfo(info.Options())
			assert.Equal(t, info, j.RetryInfo())
		})
	}
}

func fullRetryInfo() amboy.JobRetryInfo {
	return amboy.JobRetryInfo{
		Retryable: true, NeedsRetry: true, BaseJobID: "a", CurrentAttempt: 1, MaxAttempts: 2,
		DispatchBy: time.Minute, WaitUntil: time.Second, Start: someTime, End: someTime.Add(time.Second),
	}
}

// TestStoredForm checks that what a queue stores of a job has the same keys as the legacy
// library's documents, and no new ones while they are unused.
func TestStoredForm(t *testing.T) {
	for _, test := range []struct {
		name       string
		value      any
		bson, json string
	}{
		{
			name:  "status of a new job",
			value: amboy.JobStatusInfo{},
			bson:  `{"owner":"","completed":false,"in_prog":false,"mod_ts":{"$date":{"$numberLong":"-62135596800000"}},"mod_count":{"$numberInt":"0"},"err_count":{"$numberInt":"0"}}`,
			json:  `{"owner":"","completed":false,"in_progress":false,"mod_time":"0001-01-01T00:00:00Z","mod_count":0,"err_count":0}`,
		},
		{
			name: "status of a failed job",
			value: amboy.JobStatusInfo{
				Owner: "q", Completed: true, InProgress: true, ModificationTime: someTime,
				ModificationCount: 2, ErrorCount: 1, Errors: []string{"no"},
			},
			bson: `{"owner":"q","completed":true,"in_prog":true,"mod_ts":{"$date":{"$numberLong":"1893553445006"}},"mod_count":{"$numberInt":"2"},"err_count":{"$numberInt":"1"},"errors":["no"]}`,
			json: `{"owner":"q","completed":true,"in_progress":true,"mod_time":"2030-01-02T03:04:05.006Z","mod_count":2,"err_count":1,"errors":["no"]}`,
		},
		{
			name: "new fields of the status",
			value: amboy.JobStatusInfo{
				ModificationTime: someTime,
				Attempts:         []amboy.AttemptError{{Attempt: 1, At: someTime, Error: "no"}, {At: someTime, Error: "no", Stack: "main.go:1"}},
				DroppedErrors:    3,
				Outcome:          amboy.OutcomeCanceled,
				Hold:             amboy.HoldParked,
				Reason:           "asked for",
			},
			bson: `{"owner":"","completed":false,"in_prog":false,"mod_ts":{"$date":{"$numberLong":"1893553445006"}},"mod_count":{"$numberInt":"0"},"err_count":{"$numberInt":"0"},` +
				`"attempt_errors":[{"attempt":{"$numberInt":"1"},"at":{"$date":{"$numberLong":"1893553445006"}},"error":"no"},{"attempt":{"$numberInt":"0"},"at":{"$date":{"$numberLong":"1893553445006"}},"error":"no","stack":"main.go:1"}],` +
				`"dropped_errors":{"$numberInt":"3"},"outcome":"canceled","hold":"parked","reason":"asked for"}`,
			json: `{"owner":"","completed":false,"in_progress":false,"mod_time":"2030-01-02T03:04:05.006Z","mod_count":0,"err_count":0,` +
				`"attempt_errors":[{"attempt":1,"at":"2030-01-02T03:04:05.006Z","error":"no"},{"attempt":0,"at":"2030-01-02T03:04:05.006Z","error":"no","stack":"main.go:1"}],` +
				`"dropped_errors":3,"outcome":"canceled","hold":"parked","reason":"asked for"}`,
		},
		{
			name:  "times, unset",
			value: amboy.JobTimeInfo{},
			bson:  `{}`,
		},
		{
			name: "times",
			value: amboy.JobTimeInfo{
				Created: someTime, Start: someTime, End: someTime, WaitUntil: someTime, DispatchBy: someTime, MaxTime: time.Minute,
			},
			bson: `{"created":{"$date":{"$numberLong":"1893553445006"}},"start":{"$date":{"$numberLong":"1893553445006"}},"end":{"$date":{"$numberLong":"1893553445006"}},` +
				`"wait_until":{"$date":{"$numberLong":"1893553445006"}},"dispatch_by":{"$date":{"$numberLong":"1893553445006"}},"max_time":{"$numberLong":"60000000000"}}`,
			json: `{"created":"2030-01-02T03:04:05.006Z","start":"2030-01-02T03:04:05.006Z","end":"2030-01-02T03:04:05.006Z",` +
				`"wait_until":"2030-01-02T03:04:05.006Z","dispatch_by":"2030-01-02T03:04:05.006Z","max_time":60000000000}`,
		},
		{
			name:  "retry, unset",
			value: amboy.JobRetryInfo{},
			bson:  `{"retryable":false,"needs_retry":false,"current_attempt":{"$numberInt":"0"}}`,
		},
		{
			name:  "retry",
			value: fullRetryInfo(),
			bson: `{"retryable":true,"needs_retry":true,"base_job_id":"a","current_attempt":{"$numberInt":"1"},"max_attempts":{"$numberInt":"2"},` +
				`"dispatch_by":{"$numberLong":"60000000000"},"wait_until":{"$numberLong":"1000000000"},` +
				`"start":{"$date":{"$numberLong":"1893553445006"}},"end":{"$date":{"$numberLong":"1893553446006"}}}`,
			json: `{"retryable":true,"needs_retry":true,"base_job_id":"a","current_attempt":1,"max_attempts":2,` +
				`"dispatch_by":60000000000,"wait_until":1000000000,"start":"2030-01-02T03:04:05.006Z","end":"2030-01-02T03:04:06.006Z"}`,
		},
		{
			name:  "type",
			value: amboy.JobType{Name: "test", Version: 1},
			bson:  `{"name":"test","version":{"$numberInt":"1"}}`,
			json:  `{"name":"test","version":1}`,
		},
		{
			name:  "changes to the retry are not stored",
			value: amboy.JobRetryOptions{Retryable: ptr(true), MaxAttempts: ptr(3)},
			bson:  `{}`,
			json:  `{}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			stored, err := bson.MarshalExtJSON(test.value, true, false)
			require.NoError(t, err)
			assert.Equal(t, test.bson, string(stored)) //nolint:testifylint // The order of the keys matters.

			if test.json != "" {
				stored, err = json.Marshal(test.value)
				require.NoError(t, err)
				assert.Equal(t, test.json, string(stored)) //nolint:testifylint // The order of the keys matters.
			}
		})
	}
}

func TestStoredFormIsReadBack(t *testing.T) {
	type record struct {
		Type   amboy.JobType
		Status amboy.JobStatusInfo
		Time   amboy.JobTimeInfo
		Retry  amboy.JobRetryInfo
	}
	for name, want := range map[string]record{
		"empty": {Status: amboy.JobStatusInfo{ModificationTime: someTime}},
		"full": {
			Type: amboy.JobType{Name: "test", Version: 1},
			Status: amboy.JobStatusInfo{
				Owner: "q", Completed: true, InProgress: true, ModificationTime: someTime, ModificationCount: 2,
				ErrorCount: 1, Errors: []string{"no"}, DroppedErrors: 3, Reason: "because",
				Attempts: []amboy.AttemptError{{Attempt: 1, At: someTime, Error: "no", Stack: "main.go:1"}},
				Outcome:  amboy.OutcomeExpired, Hold: amboy.HoldBlocked,
			},
			Time: amboy.JobTimeInfo{
				Created: someTime, Start: someTime, End: someTime, WaitUntil: someTime, DispatchBy: someTime, MaxTime: time.Minute,
			},
			Retry: fullRetryInfo(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			stored, err := bson.Marshal(want)
			require.NoError(t, err)
			var fromBSON record
			require.NoError(t, bson.Unmarshal(stored, &fromBSON))
			assert.Equal(t, want, fromBSON)

			stored, err = json.Marshal(want)
			require.NoError(t, err)
			var fromJSON record
			require.NoError(t, json.Unmarshal(stored, &fromJSON))
			assert.Equal(t, want, fromJSON)
		})
	}
}

func ptr[T any](value T) *T { return &value }

func TestSetMetadata(t *testing.T) {
	j := newJob("a")
	require.NoError(t, amboy.SetMetadata(j, "tenant", "acme"))
	assert.Equal(t, map[string]string{"tenant": "acme"}, amboy.MetadataOf(j))

	withoutMetadata := struct{ amboy.Job }{j}
	require.ErrorIs(t, amboy.SetMetadata(withoutMetadata, "tenant", "acme"), errors.ErrUnsupported)
	assert.Nil(t, amboy.MetadataOf(withoutMetadata))
}
