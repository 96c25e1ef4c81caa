package riverjob

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
)

func TestTheNumberOfAClaimGrowsBeyondTheLengthOfAttemptedBy(t *testing.T) {
	r := &row{attemptedBy: []string{"host_2026_01_01T00_00_00_000000"}, metadata: map[string]json.RawMessage{}}
	for n := 2; n <= 150; n++ {
		r.claim("driver.host.1.1", time.Minute)
		assert.Equal(t, token{"driver.host.1.1", n, time.Minute}, r.token())
		assert.Len(t, r.attemptedBy, min(n, maxAttemptedBy))
	}
	assert.Equal(t, "driver.host.1.1#150/1m0s", r.attemptedBy[maxAttemptedBy-1])
}

func TestAnEntryOfRiverIsAnOwnerWithoutALease(t *testing.T) {
	for _, text := range []string{"host_2026", "a#b/1s", "a#1/x", "a/1s", "", "#", "/"} {
		assert.Equal(t, token{owner: text, count: 7}, parseToken(text, 7), text)
	}
	assert.Equal(t, token{"a#1/b", 2, time.Second}, parseToken("a#1/b#2/1s", 7))
}

func TestRetryDelaysAreRivers(t *testing.T) {
	r := &row{}
	for n, seconds := range []float64{1, 16, 81, 256} {
		r.newError = &attemptError{}
		for _, random := range []float64{0, 0.5, 1} {
			assert.InDelta(t, seconds*(0.9+0.2*random), r.retryDelay(random).Seconds(), 0.001, "after error %d", n+1)
		}
		r.errors = append(r.errors, attemptError{})
	}
	r.errors = make([]attemptError, 30_000)
	assert.Positive(t, r.retryDelay(1))
}

func TestWhateverARowHoldsCanBeShown(t *testing.T) {
	r := &row{
		id: 7, state: stateDiscarded, queue: "q", kind: "odd", args: "[1]", attempt: 0, uniqueKey: []byte{1, 2}, uniqueStates: "11111111",
		errors: []attemptError{decodeError(nil), decodeError(new("7")), decodeError(new(`{"at": "noon", "attempt": -1, "error": "x"}`))},
		metadata: map[string]json.RawMessage{
			keyLog: json.RawMessage(`"none"`), keyProgress: json.RawMessage(`7`), keySnoozes: json.RawMessage(`"many"`), keyOutput: json.RawMessage(`null`),
		},
	}
	record := r.record()
	assert.Equal(t, amboy.StateFailed, amboy.StateOf(amboy.JobInfo{Status: record.Status, Time: record.TimeInfo, Retry: record.RetryInfo}, time.Now()))
	assert.Equal(t, amboy.UniqueUntilForgotten, record.UniqueUntil)
	assert.Len(t, record.Foreign.UniqueStates, 8)
	assert.Zero(t, r.number(keySnoozes))
	require.NotEmpty(t, r.attempts())
	r.putProgress(&amboy.JobProgress{Log: []amboy.LogLine{{Text: "a\x00b\xff"}}})
	assert.Contains(t, string(r.metadata[keyLog]), "a�b�")
}

func TestInfiniteTimesAreFarAway(t *testing.T) {
	assert.True(t, timeOf(pgtype.Timestamptz{Valid: true, InfinityModifier: pgtype.Infinity}).After(time.Now().AddDate(1000, 0, 0)))
	assert.True(t, timeOf(pgtype.Timestamptz{Valid: true, InfinityModifier: pgtype.NegativeInfinity}).Before(time.Now()))
	assert.Zero(t, timeOf(pgtype.Timestamptz{}))
}

func TestMetadataOfOthersIsNotOverwritten(t *testing.T) {
	for name, test := range map[string]struct {
		stored      string
		before, now map[string]string
		want        string
	}{
		"changed by another":           {`"new"`, map[string]string{"k": "old"}, map[string]string{"k": "old"}, `"new"`},
		"changed by both":              {`"new"`, map[string]string{"k": "old"}, map[string]string{"k": "mine"}, `"mine"`},
		"a number stays a number":      {`3`, map[string]string{"k": "3"}, map[string]string{"k": "4"}, `4`},
		"a number becomes text":        {`3`, map[string]string{"k": "3"}, map[string]string{"k": "four"}, `"four"`},
		"a text stays a text":          {`"3"`, map[string]string{"k": "3"}, map[string]string{"k": "4"}, `"4"`},
		"unchanged":                    {`{"a": [1.50]}`, map[string]string{"k": `{"a": [1.50]}`}, map[string]string{"k": `{"a": [1.50]}`}, `{"a": [1.50]}`},
		"what was claimed is unknown":  {`"new"`, nil, map[string]string{"k": "mine"}, `"mine"`},
		"dropped by another meanwhile": {``, map[string]string{"k": "old"}, map[string]string{"k": "old"}, ``},
	} {
		t.Run(name, func(t *testing.T) {
			r := &row{metadata: map[string]json.RawMessage{}}
			if test.stored != "" {
				r.metadata["k"] = json.RawMessage(test.stored)
			}
			var before any
			if test.before != nil {
				before = test.before
			}
			r.mergeMetadata(before, test.now)
			assert.Equal(t, test.want, string(r.metadata["k"]))
		})
	}
}

func TestStatesOfAUniqueKeyAreInTheOrderOfALife(t *testing.T) {
	r := &row{uniqueStates: "11110101"}
	assert.Equal(t, "[scheduled pending parked running retrying succeeded]", fmt.Sprint(r.statesOfKey()))
}
