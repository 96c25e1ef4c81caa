package registry_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/registry"
)

// leaving is a job with a result.
type leaving struct {
	sample
	result any
	decode func(any) error
}

func (j *leaving) Result() any                          { return j.result }
func (j *leaving) RestoreResult(decode func(any) error) { j.decode = decode }

func TestResultOfAJobIsStored(t *testing.T) {
	name := newType()
	newLeaving := func() *leaving {
		j := &leaving{}
		j.SetType(amboy.JobType{Name: name, Version: 1})
		j.SetID("j")
		return j
	}
	require.NoError(t, registry.RegisterJobType(name, func() amboy.Job { return newLeaving() }))
	for _, f := range []amboy.Format{amboy.BSON, amboy.BSON2, amboy.JSON} {
		j := newLeaving()
		stored, err := registry.MakeJobInterchange(j, f)
		require.NoError(t, err)
		assert.Nil(t, stored.Result)
		got, err := stored.Resolve(f)
		require.NoError(t, err)
		assert.Nil(t, got.(*leaving).decode)

		j.result = []int{1, 2}
		stored, err = registry.MakeJobInterchange(j, f)
		require.NoError(t, err)
		whole, err := stored.Encode(f)
		require.NoError(t, err)
		stored, err = registry.DecodeJobInterchange(whole, f)
		require.NoError(t, err)
		got, err = stored.Resolve(f)
		require.NoError(t, err)
		var left []int
		require.NoError(t, got.(*leaving).decode(&left))
		assert.Equal(t, []int{1, 2}, left)
		var wrong map[string]int
		require.ErrorContains(t, got.(*leaving).decode(&wrong), "decoding the result")

		j.result = newLeaving
		_, err = registry.MakeJobInterchange(j, f)
		var failure *registry.EncodeError
		require.ErrorAs(t, err, &failure)
		assert.Equal(t, []string{"j", name, "result"}, []string{failure.JobID, failure.Type, failure.Field})
	}
}

func TestProgressIsStoredWithTheJob(t *testing.T) {
	j := newSample("j")
	j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: ptr(true), CurrentAttempt: ptr(3)})
	j.SetProgress(amboy.JobProgress{Fraction: 0.5, Message: "half", Time: at(1), Log: []amboy.LogLine{{Time: at(0), Text: "a"}}, DroppedLines: 7})
	for _, f := range []amboy.Format{amboy.BSON, amboy.BSON2, amboy.JSON} {
		got := roundTrip(t, j, f)
		assert.Equal(t, j.Progress(), amboy.ProgressOf(got), "%s", f)
	}
}

func TestAJobThatCannotBeEncodedIsNamed(t *testing.T) {
	errBroken := errors.New("broken")
	j := newUnusual(func() ([]byte, error) { return nil, errBroken })
	_, err := registry.MakeJobInterchange(j, amboy.JSON)
	var failure *registry.EncodeError
	require.ErrorAs(t, err, &failure)
	require.ErrorIs(t, err, errBroken)
	assert.Equal(t, "job", failure.Field)
	assert.Same(t, j, failure.Value)
}

func TestResultThatIsJSONAlreadyIsStored(t *testing.T) {
	name := newType()
	require.NoError(t, registry.RegisterJobType(name, func() amboy.Job { return &leaving{} }))
	raw := func(text string) *json.RawMessage { return new(json.RawMessage(text)) }
	none := json.RawMessage(nil)
	for want, result := range map[string]*json.RawMessage{
		`{"value":{"a":[1,"b c"]}}`: raw(`{ "a": [1, "b c"] }`),
		`{"value":7}`:               raw("7\n"),
		`{"value":null}`:            &none,
	} {
		j := &leaving{result: result}
		j.SetType(amboy.JobType{Name: name, Version: 1})
		stored, err := registry.MakeJobInterchange(j, amboy.JSON)
		require.NoError(t, err, want)
		assert.Equal(t, want, string(stored.Result.Raw()))
	}
	for _, wrong := range []string{`{"a":`, `1 2`, `}`, `1},{"value":2`} {
		j := &leaving{result: raw(wrong)}
		j.SetType(amboy.JobType{Name: name, Version: 1})
		_, err := registry.MakeJobInterchange(j, amboy.JSON)
		var failure *registry.EncodeError
		require.ErrorAs(t, err, &failure, wrong)
	}
}
