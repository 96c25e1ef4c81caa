package amboy_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
)

// keyed is a job with a unique key and tags.
type keyed struct {
	amboy.Job
	key   string
	until amboy.UniqueUntil
	tags  []string
}

func (j *keyed) UniqueKey() (string, amboy.UniqueUntil) { return j.key, j.until }
func (j *keyed) Tags() []string                         { return j.tags }

func TestUniqueKeyOf(t *testing.T) {
	for name, test := range map[string]struct {
		job   amboy.Job
		key   string
		until amboy.UniqueUntil
	}{
		"another type":   {job: job.NewShellJob("true", "")},
		"no key":         {job: &keyed{until: amboy.UniqueUntilFailed}},
		"the default":    {job: &keyed{key: "k"}, key: "k", until: amboy.UniqueUntilEnded},
		"own duration":   {job: &keyed{key: "k", until: amboy.UniqueUntilStarted}, key: "k", until: amboy.UniqueUntilStarted},
		"not a good one": {job: &keyed{key: "k", until: "tomorrow"}, key: "k", until: "tomorrow"},
	} {
		t.Run(name, func(t *testing.T) {
			key, until := amboy.UniqueKeyOf(test.job)
			assert.Equal(t, test.key, key)
			assert.Equal(t, test.until, until)
		})
	}
}

func TestUniqueUntilIsValid(t *testing.T) {
	for _, until := range []amboy.UniqueUntil{
		"", amboy.UniqueUntilEnded, amboy.UniqueUntilStarted, amboy.UniqueUntilFailed, amboy.UniqueUntilForgotten,
	} {
		assert.True(t, until.IsValid(), "%q", until)
	}
	assert.False(t, amboy.UniqueUntil("tomorrow").IsValid())
}

func TestStatesInWhichAUniqueKeyCounts(t *testing.T) {
	waiting := []amboy.JobState{amboy.StateScheduled, amboy.StatePending, amboy.StateBlocked, amboy.StateParked}
	unfinished := slices.Concat(waiting, []amboy.JobState{amboy.StateRunning, amboy.StateRetrying})
	for until, want := range map[amboy.UniqueUntil][]amboy.JobState{
		"":                         unfinished,
		amboy.UniqueUntilEnded:     unfinished,
		amboy.UniqueUntilStarted:   waiting,
		amboy.UniqueUntilFailed:    slices.Concat(unfinished, []amboy.JobState{amboy.StateSucceeded}),
		amboy.UniqueUntilForgotten: amboy.JobStates(),
	} {
		var counted []amboy.JobState
		for _, state := range amboy.JobStates() {
			if until.Counts(state) {
				counted = append(counted, state)
			}
		}
		assert.Equal(t, want, counted, "%q", until)
	}
}

func TestTagsOf(t *testing.T) {
	assert.Empty(t, amboy.TagsOf(job.NewShellJob("true", "")))
	assert.Equal(t, []string{"red"}, amboy.TagsOf(&keyed{tags: []string{"red"}}))
}
