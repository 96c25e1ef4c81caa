package job_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/registry"
)

// ended returns the stored form of a job that has ended with a result.
func ended(t *testing.T, j amboy.Job, f amboy.Format) *registry.JobInterchange {
	t.Helper()
	require.NoError(t, amboy.RunJob(t.Context(), j))
	stored, err := registry.MakeJobInterchange(j, f)
	require.NoError(t, err)
	return stored
}

func resolve(t *testing.T, stored *registry.JobInterchange, f amboy.Format) amboy.Job {
	t.Helper()
	j, err := stored.Resolve(f)
	require.NoError(t, err)
	return j
}

func TestResultsOfAnyTypeAreStored(t *testing.T) {
	check(t, 7)
	check(t, "")
	check(t, []string{"a", "b"})
	check(t, []byte{0, 1})
	check(t, map[string]int{"a": 1})
	check(t, thumbnail{"cat.png", 64})
	check(t, &thumbnail{"cat.png", 64})
	check(t, (*thumbnail)(nil))
	check(t, any(nil))
	check(t, struct{}{})
	check(t, true)
}

// check encodes and decodes a job with a result, twice.
func check[R any](t *testing.T, want R) {
	t.Helper()
	d := job.DefineResult(newName(), 1, func(context.Context, int) (R, error) { return want, nil })
	require.NoError(t, d.Err())
	for _, f := range formats {
		j, err := d.New(1)
		require.NoError(t, err)
		stored := ended(t, j, f)
		for range 2 {
			got := resolve(t, stored, f)
			r, err := d.ResultOf(got)
			require.NoError(t, err, "%T in %s", want, f)
			assert.Equal(t, want, r, "%T in %s", want, f)
			stored, err = registry.MakeJobInterchange(got, f)
			require.NoError(t, err)
		}
	}
}

func TestACopyOfAnEndedJobKeepsItsResult(t *testing.T) {
	d := job.DefineResult(newName(), 1, func(context.Context, int) (int, error) { return 7, nil })
	j, err := d.New(1)
	require.NoError(t, err)
	again, err := registry.MakeJobInterchange(resolve(t, ended(t, j, amboy.JSON), amboy.JSON), amboy.BSON)
	require.NoError(t, err)
	r, err := d.ResultOf(resolve(t, again, amboy.BSON))
	require.NoError(t, err)
	assert.Equal(t, 7, r)
}

func TestResultTypeError(t *testing.T) {
	d := job.DefineResult(newName(), 1, func(context.Context, int) (int, error) { return 7, nil })
	for _, f := range formats {
		for name, body := range map[string]registry.Body{
			"text":     registry.NewBody([]byte(`{"value":"seven"}`), true),
			"no value": registry.NewBody([]byte(`{"other":7}`), true),
			"cut":      registry.NewBody([]byte(`{"value":`), true),
			"BSON":     registry.NewBody([]byte{5, 0, 0, 0, 0}, false),
			"nothing":  registry.NewBody(nil, false),
		} {
			j, err := d.New(1, job.ID("j"))
			require.NoError(t, err)
			stored := ended(t, j, f)
			stored.Result = &body
			_, err = d.ResultOf(resolve(t, stored, f))
			var wrong *job.ResultTypeError
			require.ErrorAs(t, err, &wrong, name)
			assert.Equal(t, "j", wrong.JobID)
			assert.Equal(t, d.Type().Name, wrong.Type)
			assert.Equal(t, "int", wrong.Want)
			assert.Error(t, wrong.Unwrap())
		}
	}
}

func TestAJobThatSucceededUnrunHasNoResult(t *testing.T) {
	d := job.DefineResult(newName(), 1, func(context.Context, int) (int, error) { return 7, nil })
	j, err := d.New(1, job.ID("j"))
	require.NoError(t, err)
	j.SetStatus(amboy.JobStatusInfo{Completed: true})
	_, err = d.ResultOf(j)
	var none *job.NoResultError
	require.ErrorAs(t, err, &none)
	assert.Equal(t, job.NoResultError{JobID: "j", State: amboy.StateSucceeded}, *none)
}

func TestARunDropsThePreviousResult(t *testing.T) {
	runs := 0
	d := job.DefineResult(newName(), 1, func(context.Context, int) (int, error) {
		runs++
		if runs > 1 {
			return 0, job.Cancel(nil)
		}
		return 7, nil
	})
	j, err := d.New(1)
	require.NoError(t, err)
	require.NoError(t, amboy.RunJob(t.Context(), j))
	require.Error(t, amboy.RunJob(t.Context(), j))
	assert.Nil(t, j.(amboy.ResultJob).Result())
}
