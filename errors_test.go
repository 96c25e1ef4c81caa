package amboy_test

import (
	"context"
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

var errPlain = errors.New("disk is full")

// TestErrorKinds checks every predicate against every kind of error, bare and in every
// kind of wrapping.
func TestErrorKinds(t *testing.T) {
	kinds := []struct {
		name                 string
		err                  error
		job, scope, notFound bool
	}{
		{name: "nil"},
		{name: "plain", err: errPlain},
		{name: "context", err: context.Canceled},
		{name: "queue closed", err: amboy.ErrQueueClosed},
		{name: "invalid job", err: &amboy.InvalidJobError{Field: "ID", Rule: "must not be empty"}},
		{name: "same message", err: errors.New("duplicate job")},

		{name: "duplicate job", err: amboy.NewDuplicateJobError("duplicate job"), job: true},
		{name: "duplicate job, formatted", err: amboy.NewDuplicateJobErrorf("job %q: %w", "a", errPlain), job: true},
		{name: "duplicate job, made", err: amboy.MakeDuplicateJobError(errPlain), job: true},
		{name: "duplicate job, made of nil", err: amboy.MakeDuplicateJobError(nil)},
		{name: "duplicate job, made of a scope", err: amboy.MakeDuplicateJobError(amboy.NewDuplicateJobScopeError("held")), job: true, scope: true},

		{name: "duplicate with the existing job", err: &amboy.DuplicateJobError{JobID: "a", Reason: amboy.DuplicateID, ExistingID: "a"}, job: true},
		{name: "duplicate scope with the existing job", err: &amboy.DuplicateJobError{JobID: "a", Reason: amboy.DuplicateEnqueueScope, ExistingID: "b"}, job: true, scope: true},
		{name: "duplicate scope", err: amboy.NewDuplicateJobScopeError("scope is held"), job: true, scope: true},
		{name: "duplicate scope, formatted", err: amboy.NewDuplicateJobScopeErrorf("scope %q: %w", "a", errPlain), job: true, scope: true},
		{name: "duplicate scope, made", err: amboy.MakeDuplicateJobScopeError(errPlain), job: true, scope: true},
		{name: "duplicate scope, made of nil", err: amboy.MakeDuplicateJobScopeError(nil)},
		{name: "duplicate scope, made of a duplicate job", err: amboy.MakeDuplicateJobScopeError(amboy.NewDuplicateJobError("taken")), job: true, scope: true},

		{name: "not found", err: amboy.NewJobNotFoundError("no such job"), notFound: true},
		{name: "not found, formatted", err: amboy.NewJobNotFoundErrorf("job %q: %w", "a", errPlain), notFound: true},
		{name: "not found, made", err: amboy.MakeJobNotFoundError(errPlain), notFound: true},

		{name: "dependency not put", err: &amboy.DependencyNotPutError{JobID: "a", DependencyID: "b"}},
		{name: "duplicate and not found", err: amboy.MakeDuplicateJobError(amboy.NewJobNotFoundError("no such job")), job: true, notFound: true},
		{name: "duplicate job, made of collated errors", err: amboy.MakeDuplicateJobError(amboy.CollateWriteErrors([]error{errPlain, errPlain})), job: true},
	}
	wrappings := []struct {
		name string
		wrap func(error) error
	}{
		{"bare", func(err error) error { return err }},
		{"%w", func(err error) error { return fmt.Errorf("putting: %w", err) }},
		{"two %w", func(err error) error { return fmt.Errorf("%w: %w", errPlain, err) }},
		{"Join", func(err error) error { return errors.Join(errPlain, err) }},
		{"Collate", func(err error) error { return amboy.CollateWriteErrors([]error{nil, err}) }},
		{"all", func(err error) error {
			return fmt.Errorf("a: %w", errors.Join(fmt.Errorf("b: %w", err)))
		}},
	}
	for _, kind := range kinds {
		for _, wrapping := range wrappings {
			t.Run(kind.name+"/"+wrapping.name, func(t *testing.T) {
				err := wrapping.wrap(kind.err)
				assert.Equal(t, kind.job, amboy.IsDuplicateJobError(err), "duplicate job: %v", err)
				assert.Equal(t, kind.scope, amboy.IsDuplicateJobScopeError(err), "duplicate scope: %v", err)
				assert.Equal(t, kind.notFound, amboy.IsJobNotFoundError(err), "not found: %v", err)
			})
		}
	}
}

func TestMarkedErrorsWrapTheirCause(t *testing.T) {
	for name, err := range map[string]error{
		"duplicate job":              amboy.MakeDuplicateJobError(errPlain),
		"duplicate job, formatted":   amboy.NewDuplicateJobErrorf("putting: %w", errPlain),
		"duplicate scope":            amboy.MakeDuplicateJobScopeError(errPlain),
		"duplicate scope, formatted": amboy.NewDuplicateJobScopeErrorf("putting: %w", errPlain),
		"not found":                  amboy.MakeJobNotFoundError(errPlain),
		"not found, formatted":       amboy.NewJobNotFoundErrorf("putting: %w", errPlain),
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, err, errPlain)
			assert.ErrorContains(t, err, "disk is full")
		})
	}
	assert.Nil(t, amboy.MakeJobNotFoundError(nil))
}

func TestTheMessageOfADuplicateNamesBothJobs(t *testing.T) {
	for want, e := range map[string]amboy.DuplicateJobError{
		`job "a" is in the queue already`:                        {JobID: "a", Reason: amboy.DuplicateID, Value: "a", ExistingID: "a"},
		`job "b" is in the queue already`:                        {JobID: "b", Reason: amboy.DuplicateID, Value: "b"},
		`ID of job "r.a" is the name of a record of job "a"`:     {JobID: "r.a", Reason: amboy.DuplicateID, Value: "r.a", ExistingID: "a"},
		`unique key "k" of job "a" is held by job "b"`:           {JobID: "a", Reason: amboy.DuplicateUniqueKey, Value: "k", ExistingID: "b"},
		`unique key "k" of job "a" is held by another job`:       {JobID: "a", Reason: amboy.DuplicateUniqueKey, Value: "k"},
		`enqueue scope "disk" of job "a" is held by job "b"`:     {JobID: "a", Reason: amboy.DuplicateEnqueueScope, Value: "disk", ExistingID: "b"},
		`enqueue scope "disk" of job "a" is held by another job`: {JobID: "a", Reason: amboy.DuplicateEnqueueScope, Value: "disk"},
	} {
		assert.EqualError(t, &e, want)
	}
}

func TestTheErrorOfALongDependencyCycleWasAsLongAsTheCycle(t *testing.T) {
	path := []string{"a", "b", "a"}
	require.EqualError(t, &amboy.DependencyCycleError{Path: path}, "dependency cycle: a -> b -> a")
	path = nil
	for i := range 4000 {
		path = append(path, fmt.Sprintf("job-%d", i))
	}
	path = append(path, "job-0")
	long := &amboy.DependencyCycleError{Path: path}
	require.EqualError(t, long, "dependency cycle of 4000 jobs: job-0 -> job-1 -> job-2 -> job-3 -> job-4 -> … -> job-0")
	for i := range path {
		path[i] = strings.Repeat("é", amboy.MaxIDLength/2)
	}
	assert.Less(t, len(long.Error()), 1000)
	assert.True(t, utf8.ValidString(long.Error()))
}

func TestCollateWriteErrors(t *testing.T) {
	duplicate := amboy.NewDuplicateJobError("job is taken")
	other := fmt.Errorf("putting: %w", amboy.NewDuplicateJobError("job is taken too"))
	scope := amboy.NewDuplicateJobScopeError("scope is held")
	notPut := fmt.Errorf("putting: %w", &amboy.DependencyNotPutError{JobID: "a", DependencyID: "b"})
	many := amboy.CollateWriteErrors

	for _, test := range []struct {
		name       string
		errs       []error
		job, scope bool
	}{
		{name: "one plain", errs: []error{errPlain}},
		{name: "one duplicate job", errs: []error{nil, duplicate}, job: true},
		{name: "one duplicate scope", errs: []error{scope}, job: true, scope: true},
		{name: "duplicate jobs", errs: []error{duplicate, nil, other}, job: true},
		{name: "duplicate jobs and scopes", errs: []error{duplicate, scope, other}, job: true, scope: true},
		{name: "duplicate scopes", errs: []error{scope, scope}, job: true, scope: true},
		{name: "plain first", errs: []error{errPlain, duplicate, scope}},
		{name: "plain last", errs: []error{scope, duplicate, errPlain}},
		{name: "plain alone", errs: []error{errPlain, context.Canceled}},
		{name: "a dependent of a duplicate job", errs: []error{notPut, duplicate, notPut}, job: true},
		{name: "a dependent of a duplicate scope", errs: []error{scope, notPut}, job: true, scope: true},
		{name: "a dependent of a plain one", errs: []error{notPut, errPlain, duplicate}},
		{name: "dependents alone", errs: []error{notPut, notPut}},
		{name: "a plain one joined with a dependent", errs: []error{errors.Join(errPlain, notPut), duplicate}},
		{name: "nested duplicates", errs: []error{many([]error{duplicate, other}), duplicate}, job: true},
		{name: "nested scope", errs: []error{many([]error{duplicate, other}), scope}, job: true, scope: true},
		{name: "nested plain", errs: []error{many([]error{duplicate, errPlain}), duplicate}},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := many(test.errs)
			require.Error(t, err)
			for name, e := range map[string]error{
				"itself":  err,
				"wrapped": fmt.Errorf("putting: %w", err),
				"joined":  errors.Join(err),
			} {
				assert.Equal(t, test.job, amboy.IsDuplicateJobError(e), name)
				assert.Equal(t, test.scope, amboy.IsDuplicateJobScopeError(e), name)
				assert.Equal(t, err.Error() == e.Error(), name != "wrapped", "%s has the message %q", name, e)
			}
			for _, one := range test.errs {
				if one != nil {
					require.ErrorIs(t, err, one)
					assert.ErrorContains(t, err, one.Error())
				}
			}
		})
	}

	t.Run("none", func(t *testing.T) {
		require.NoError(t, many(nil))
		assert.NoError(t, many([]error{nil, nil}))
	})
	t.Run("one is itself", func(t *testing.T) {
		assert.Same(t, errPlain, many([]error{nil, errPlain}))
	})
	t.Run("a collated error beside others", func(t *testing.T) {
		duplicates := many([]error{duplicate, other})
		assert.True(t, amboy.IsDuplicateJobScopeError(errors.Join(duplicates, scope)))
		assert.True(t, amboy.IsDuplicateJobError(errors.Join(many([]error{errPlain, errPlain}), duplicate)))
	})
}

func TestInvalidJobError(t *testing.T) {
	for _, test := range []struct {
		name string
		err  amboy.InvalidJobError
		want string
	}{
		{
			"without an ID",
			amboy.InvalidJobError{Field: "ID", Value: "", Rule: "must not be empty"},
			`invalid job: ID must not be empty (is "")`,
		},
		{
			"with an ID",
			amboy.InvalidJobError{JobID: "a", Field: "max attempts", Value: -1, Rule: "must not be negative"},
			`invalid job "a": max attempts must not be negative (is -1)`,
		},
		{
			"with a readable value",
			amboy.InvalidJobError{JobID: "a", Field: "max time", Value: -time.Second, Rule: "must not be negative"},
			`invalid job "a": max time must not be negative (is "-1s")`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.EqualError(t, &test.err, test.want)
		})
	}
}

func TestDependencyCycleError(t *testing.T) {
	err := &amboy.DependencyCycleError{Path: []string{"a", "b", "a"}}
	assert.EqualError(t, err, "dependency cycle: a -> b -> a")
}

// The error said (is "2030-01-02 04:04:05 +0000 UTC m=+3600.000000001").
func TestAnInvalidTimeWasShownWithTheMonotonicClock(t *testing.T) {
	dispatchBy := time.Now()
	waitUntil := dispatchBy.Add(time.Hour)
	err := amboy.JobTimeInfo{WaitUntil: waitUntil, DispatchBy: dispatchBy}.Validate()
	assert.EqualError(t, err, fmt.Sprintf("invalid job: wait-until must not be after dispatch-by (%s) (is %q)",
		dispatchBy.Format(time.RFC3339Nano), waitUntil.Format(time.RFC3339Nano)))
}
