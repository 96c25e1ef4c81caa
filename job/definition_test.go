package job_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/registry"
	"github.com/mongodb/amboy/retry"
)

var lastName atomic.Int64

// newName returns a name that no other definition has, even if a test runs twice.
func newName() string { return fmt.Sprint("test-", lastName.Add(1)) }

func succeed[A any](context.Context, A) error { return nil }

type thumbnail struct {
	Path  string `bson:"path" json:"path"`
	Width int    `bson:"width" json:"width"`
}

func TestDefinitionMakesJobs(t *testing.T) {
	name := newName()
	d := job.Define(name, 3, succeed[thumbnail])
	require.NoError(t, d.Err())
	assert.Equal(t, amboy.JobType{Name: name, Version: 3}, d.Type())

	j, err := d.New(thumbnail{"cat.png", 64})
	require.NoError(t, err)
	require.NoError(t, amboy.ValidateJob(j))
	assert.Equal(t, d.Type(), j.Type())
	assert.True(t, strings.HasPrefix(j.ID(), name+"-"), j.ID())
	assert.Equal(t, amboy.JobTimeInfo{}, j.TimeInfo())
	assert.Equal(t, amboy.JobRetryInfo{}, j.RetryInfo())
	assert.Empty(t, j.Dependency().Edges())
	assert.Equal(t, thumbnail{"cat.png", 64}, j.(amboy.ArgsJob).Args())
	args, err := d.Args(j)
	require.NoError(t, err)
	assert.Equal(t, thumbnail{"cat.png", 64}, args)

	other, err := d.New(thumbnail{"cat.png", 64})
	require.NoError(t, err)
	assert.NotEqual(t, j.ID(), other.ID())
}

func TestDefinitionIsRefused(t *testing.T) {
	type hidden struct {
		Name string
		_    chan int
	}
	type tagged struct {
		Left func() `json:"-"`
	}
	type inner struct{ Deep []map[string]*complex128 }
	type tree struct {
		Children []*tree
		Value    any
	}
	taken := newName()
	require.NoError(t, job.Define(taken, 1, succeed[string]).Err())
	byHand := newName()
	registry.AddJobType(byHand, func() amboy.Job { return job.NewShellJobInstance() })

	for name, test := range map[string]struct {
		err         error
		field, rule string // empty for no error
	}{
		"hidden fields":    {err: job.Define(newName(), 0, succeed[hidden]).Err()},
		"left-out fields":  {err: job.Define(newName(), 0, succeed[tagged]).Err()},
		"recursive":        {err: job.Define(newName(), 0, succeed[tree]).Err()},
		"function":         {job.Define(newName(), 0, succeed[func()]).Err(), "type of the arguments", "must be storable (contains func())"},
		"time":             {err: job.Define(newName(), 0, succeed[*time.Time]).Err()},
		"no name":          {job.Define("", 1, succeed[string]).Err(), "name", "must not be empty"},
		"long name":        {job.Define(strings.Repeat("n", 998), 1, succeed[string]).Err(), "name", "must be at most 997 bytes long"},
		"version":          {job.Define(newName(), -1, succeed[string]).Err(), "version", "must not be negative"},
		"no function":      {job.Define[string](newName(), 1, nil).Err(), "function", "must not be nil"},
		"no function left": {job.DefineResult[string, int](newName(), 1, nil).Err(), "function", "must not be nil"},
		"two defaults":     {job.Define(newName(), 1, succeed[string], job.Defaults[string]{}, job.Defaults[string]{}).Err(), "number of defaults", "must be at most 1"},
		"channel":          {job.Define(newName(), 1, succeed[chan int]).Err(), "type of the arguments", "must be storable (contains chan int)"},
		"interface":        {job.Define(newName(), 1, succeed[*error]).Err(), "type of the arguments", "must be storable (contains error)"},
		"deep":             {job.Define(newName(), 1, succeed[inner]).Err(), "type of the arguments", "must be storable (contains complex128)"},
		"result": {
			job.DefineResult(newName(), 1, func(context.Context, int) (func(), error) { return nil, nil }).Err(),
			"type of the result", "must be storable (contains func())",
		},
		"max attempts": {job.Define(newName(), 1, succeed[string], job.Defaults[string]{MaxAttempts: -1}).Err(), "default max attempts", "must not be negative"},
		"timeout":      {job.Define(newName(), 1, succeed[string], job.Defaults[string]{Timeout: -1}).Err(), "default timeout", "must not be negative"},
		"tag":          {job.Define(newName(), 1, succeed[string], job.Defaults[string]{Tags: []string{""}}).Err(), "default tag", "must not be empty"},
		"period":       {job.Define(newName(), 1, succeed[string], job.Defaults[string]{Unique: job.Uniqueness{Period: -1}}).Err(), "default unique period", "must not be negative"},
		"policy": {
			job.Define(newName(), 1, succeed[string], job.Defaults[string]{RetryPolicy: retry.Fixed{Wait: -1}}).Err(),
			"default retry policy", "must be valid: invalid retry policy: Fixed.Wait must not be negative (is -1ns)",
		},
		"retention": {
			job.Define(newName(), 1, succeed[string], job.Defaults[string]{Retention: amboy.Retention{Failed: -2}}).Err(),
			"default retention", "must be valid: invalid retention: Failed must be positive, 0 for the default or KeepForever (is -2ns)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if test.field == "" {
				require.NoError(t, test.err)
				return
			}
			var invalid *job.InvalidDefinitionError
			require.ErrorAs(t, test.err, &invalid)
			assert.Equal(t, test.field, invalid.Field)
			assert.Equal(t, test.rule, invalid.Rule)
			assert.ErrorContains(t, test.err, test.field+" "+test.rule)
		})
	}

	for _, name := range []string{taken, byHand, "shell"} {
		second := job.Define(name, 1, succeed[string])
		var duplicate *job.DuplicateDefinitionError
		require.ErrorAs(t, second.Err(), &duplicate)
		assert.Equal(t, name, duplicate.Name)
		assert.ErrorContains(t, second.Err(), name)
	}
}

func TestEachUseOfARefusedDefinitionFails(t *testing.T) {
	name := newName()
	first := job.DefineResult(name, 1, func(context.Context, string) (int, error) { return 1, nil })
	second := job.DefineResult(name, 1, func(context.Context, string) (int, error) { return 2, nil })
	require.NoError(t, first.Err())
	q := queue.NewLocalLimitedSize(1, 10)
	j, err := first.New("x", job.ID("x"))
	require.NoError(t, err)

	var duplicate *job.DuplicateDefinitionError
	_, err = second.New("x")
	require.ErrorAs(t, err, &duplicate)
	_, err = second.Put(t.Context(), q, "x")
	require.ErrorAs(t, err, &duplicate)
	_, err = second.Args(j)
	require.ErrorAs(t, err, &duplicate)
	_, err = second.ResultOf(j)
	require.ErrorAs(t, err, &duplicate)
	assert.Zero(t, q.Stats(t.Context()).Total)

	registry.AddJobType(name, func() amboy.Job { return job.NewShellJobInstance() })
	factory, err := registry.GetJobFactory(name)
	require.NoError(t, err)
	_, err = first.Args(factory())
	assert.NoError(t, err, "the first definition is still the one that is registered")
}

func TestArgsOfAJobOfAnotherDefinition(t *testing.T) {
	d, other := job.Define(newName(), 1, succeed[string]), job.Define(newName(), 1, succeed[string])
	j, err := other.New("x", job.ID("x"))
	require.NoError(t, err)
	_, err = d.Args(j)
	var wrong *job.WrongTypeError
	require.ErrorAs(t, err, &wrong)
	assert.Equal(t, job.WrongTypeError{JobID: "x", Want: d.Type().Name, Have: other.Type().Name}, *wrong)

	_, err = d.Args(nil)
	var invalid *amboy.InvalidJobError
	assert.ErrorAs(t, err, &invalid)
}

func TestOptionsAreRefused(t *testing.T) {
	d := job.Define(newName(), 1, succeed[any])
	for name, test := range map[string]struct {
		option job.Option
		want   amboy.InvalidJobError
	}{
		"key":      {job.Limit("", 1), amboy.InvalidJobError{Field: "limit key", Value: "", Rule: "must not be empty"}},
		"limit":    {job.Limit("k", 0), amboy.InvalidJobError{Field: "limit of k", Value: 0, Rule: "must be from 1 to 1000"}},
		"ID":       {job.ID(""), amboy.InvalidJobError{Field: "ID", Value: "", Rule: "must not be empty"}},
		"delay":    {job.In(-time.Second), amboy.InvalidJobError{Field: "delay", Value: -time.Second, Rule: "must not be negative"}},
		"attempts": {job.MaxAttempts(-2), amboy.InvalidJobError{Field: "max attempts", Value: -2, Rule: "must not be negative"}},
		"timeout":  {job.Timeout(-1), amboy.InvalidJobError{Field: "timeout", Value: time.Duration(-1), Rule: "must not be negative"}},
		"after":    {job.After("a", ""), amboy.InvalidJobError{Field: "ID of a job to run after", Value: "", Rule: "must not be empty"}},
		"tags":     {job.Tags(""), amboy.InvalidJobError{Field: "tag", Value: "", Rule: "must not be empty"}},
		"period":   {job.Unique(job.Uniqueness{Period: -1}), amboy.InvalidJobError{Field: "unique period", Value: time.Duration(-1), Rule: "must not be negative"}},
		"until": {
			job.Unique(job.Uniqueness{Args: true, Until: "never"}),
			amboy.InvalidJobError{Field: "unique until", Value: amboy.UniqueUntil("never"), Rule: "must be one of the amboy.UniqueUntil values"},
		},
		"until of nothing": {
			job.Unique(job.Uniqueness{Until: amboy.UniqueUntilEnded}),
			amboy.InvalidJobError{Field: "unique until", Value: amboy.UniqueUntilEnded, Rule: "must come with Args, Period or Key"},
		},
		"policy that can't be stored": {
			job.RetryPolicy(policyFunc(nil)),
			amboy.InvalidJobError{Field: "retry policy", Value: "job_test.policyFunc", Rule: "must be one of package retry, by value, to be stored with the job"},
		},
		"no policy": {job.RetryPolicy(nil), amboy.InvalidJobError{Field: "retry policy", Value: "<nil>", Rule: "must be one of package retry, by value, to be stored with the job"}},
		"policy":    {job.RetryPolicy(retry.Fixed{Wait: -1}), amboy.InvalidJobError{Field: "retry policy", Value: "{Wait:-1ns}", Rule: "must be valid: invalid retry policy: Fixed.Wait must not be negative (is -1ns)"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := d.New("x", test.option, job.Priority(1))
			var invalid *amboy.InvalidJobError
			require.ErrorAs(t, err, &invalid)
			assert.Equal(t, test.want, *invalid)
			assert.ErrorContains(t, err, d.Type().Name)
		})
	}

	_, err := d.New(math.Inf(1), job.ID("inf"), job.Unique(job.Uniqueness{Args: true}))
	var invalid *amboy.InvalidJobError
	require.ErrorAs(t, err, &invalid)
	assert.Equal(t, "inf", invalid.JobID)
	assert.Equal(t, "args", invalid.Field)
	assert.Equal(t, "float64", invalid.Value)
	assert.ErrorContains(t, err, "unsupported value: +Inf")
}

type policyFunc func(int) time.Duration

func (f policyFunc) Delay(attempt int) time.Duration { return f(attempt) }

func TestOptionsOfAJob(t *testing.T) {
	d := job.Define(newName(), 1, succeed[string], job.Defaults[string]{
		Scopes:      func(s string) []string { return []string{s, s, "all"} },
		RetryPolicy: policyFunc(func(int) time.Duration { return time.Hour }),
		Retention:   amboy.Retention{Failed: time.Hour},
		Unique:      job.Uniqueness{Args: true},
	})
	at := time.Now().Add(time.Hour)
	j, err := d.New("x", nil, job.In(time.Minute), job.At(at), job.After("b", "a", "b"), job.MaxAttempts(7))
	require.NoError(t, err)
	assert.True(t, at.Equal(j.TimeInfo().WaitUntil))
	assert.Equal(t, []string{"b", "a"}, j.Dependency().Edges())
	assert.Equal(t, dependency.FailOnFailure, j.Dependency().(dependency.FailureChooser).OnFailure())
	assert.Equal(t, []string{"x", "all"}, j.Scopes())
	assert.Equal(t, 7, j.RetryInfo().GetMaxAttempts())
	assert.Equal(t, time.Hour, amboy.RetryDelay(j, nil))
	assert.Equal(t, amboy.Retention{Failed: time.Hour}, j.(amboy.RetainedJob).Retention())

	before := time.Now()
	j, err = d.New("x", job.At(at), job.In(time.Minute))
	require.NoError(t, err)
	assert.WithinRange(t, j.TimeInfo().WaitUntil, before.Add(time.Minute), time.Now().Add(time.Minute))
	assert.True(t, j.RetryInfo().Retryable)
	assert.Equal(t, amboy.DefaultMaxAttempts, j.RetryInfo().GetMaxAttempts())
	key, until := amboy.UniqueKeyOf(j)
	assert.Contains(t, key, d.Type().Name)
	assert.Equal(t, amboy.UniqueUntilEnded, until)

	j, err = d.New("x", job.Unique(job.Uniqueness{Period: time.Hour}))
	require.NoError(t, err)
	_, until = amboy.UniqueKeyOf(j)
	assert.Equal(t, amboy.UniqueUntilForgotten, until)

	j, err = d.New("x", job.Unique(job.Uniqueness{}), job.MaxAttempts(1))
	require.NoError(t, err)
	key, _ = amboy.UniqueKeyOf(j)
	assert.Empty(t, key)
	assert.False(t, j.RetryInfo().Retryable)
}

func TestPeriodsOfUniqueJobs(t *testing.T) {
	d := job.Define(newName(), 1, succeed[string])
	key := func(at time.Time) string {
		j, err := d.New("x", job.At(at), job.Unique(job.Uniqueness{Period: time.Hour}))
		require.NoError(t, err)
		key, _ := amboy.UniqueKeyOf(j)
		return key
	}
	hour := time.Date(2100, 1, 1, 12, 0, 0, 0, time.FixedZone("half", 1800))
	assert.Equal(t, key(hour.Add(-30*time.Minute)), key(hour.Add(29*time.Minute)))
	assert.NotEqual(t, key(hour.Add(30*time.Minute)), key(hour.Add(29*time.Minute)))
	assert.Equal(t, key(time.Time{}), key(time.Unix(0, 0)), "both run at once")
}

// TestUniqueJobsWhoseArgumentsEncodeThemselves uses a type whose methods have pointer receivers, so
// that encoding/json calls them only for addressable values.
func TestUniqueJobsWhoseArgumentsEncodeThemselves(t *testing.T) {
	type payment struct{ Cents big.Int }
	d := job.Define(newName(), 1, succeed[payment], job.Defaults[payment]{Unique: job.Uniqueness{Args: true}})
	key := func(cents int64) string {
		j, err := d.New(payment{*big.NewInt(cents)})
		require.NoError(t, err)
		key, _ := amboy.UniqueKeyOf(j)
		return key
	}
	first := key(100)
	assert.Equal(t, first, key(100), "equal arguments")
	assert.NotEqual(t, first, key(200), "different arguments")
}

// TestStoredFormOfATypedJob pins the stored form.
func TestStoredFormOfATypedJob(t *testing.T) {
	d := job.Define(newName(), 1, succeed[thumbnail])
	j, err := d.New(thumbnail{"cat.png", 64}, job.ID("x"), job.Tags("t"), job.Scopes("s"))
	require.NoError(t, err)
	stored, err := registry.MakeJobInterchange(j, amboy.JSON)
	require.NoError(t, err)
	assert.JSONEq(t, `{"args":{"path":"cat.png","width":64}}`, string(stored.Raw()))

	j, err = d.New(thumbnail{}, job.RetryPolicy(retry.Fixed{Wait: time.Second}), job.Retention(amboy.Retention{Failed: 1}))
	require.NoError(t, err)
	stored, err = registry.MakeJobInterchange(j, amboy.JSON)
	require.NoError(t, err)
	assert.JSONEq(t, `{"args":{"path":"","width":0},"override":{
		"retry_policy":{"fixed":{"wait":1000000000}},
		"retention":{"Succeeded":0,"Failed":1,"Canceled":0,"Expired":0}}}`, string(stored.Raw()))
}

var formats = []amboy.Format{amboy.BSON, amboy.BSON2, amboy.JSON}

func TestATypedJobIsStoredAndReadAgain(t *testing.T) {
	d := job.Define(newName(), 1, succeed[thumbnail], job.Defaults[thumbnail]{MaxAttempts: 2})
	for _, f := range formats {
		for _, policy := range []amboy.RetryPolicy{
			retry.Fixed{Wait: time.Minute},
			retry.Exponential{Base: time.Second, Factor: 3, Max: time.Hour, Jitter: 0.5},
			retry.Polynomial{Unit: time.Second, Max: time.Minute},
			retry.Sidekiq{Max: time.Hour},
		} {
			put, err := d.New(thumbnail{"cat.png", 64}, job.RetryPolicy(policy), job.Tags("a", "b"), job.Scopes("s"),
				job.Retention(amboy.Retention{Failed: time.Hour}), job.Unique(job.Uniqueness{Args: true, Until: amboy.UniqueUntilFailed}))
			require.NoError(t, err)
			stored, err := registry.MakeJobInterchange(put, f)
			require.NoError(t, err)
			got, err := stored.Resolve(f)
			require.NoError(t, err)

			args, err := d.Args(got)
			require.NoError(t, err)
			assert.Equal(t, thumbnail{"cat.png", 64}, args)
			assert.Equal(t, put.ID(), got.ID())
			assert.Equal(t, policy, got.(amboy.RetryPolicyJob).RetryPolicy())
			assert.Equal(t, amboy.Retention{Failed: time.Hour}, got.(amboy.RetainedJob).Retention())
			assert.Equal(t, []string{"a", "b"}, amboy.TagsOf(got))
			assert.Equal(t, []string{"s"}, got.Scopes())
			key, until := amboy.UniqueKeyOf(put)
			gotKey, gotUntil := amboy.UniqueKeyOf(got)
			assert.Equal(t, key, gotKey)
			assert.Equal(t, until, gotUntil)
		}
	}
}

func TestATypedJobIsStoredAsJSONByDefault(t *testing.T) {
	d := job.DefineResult(newName(), 1, func(context.Context, []int) ([]string, error) { return nil, nil })
	for f, isJSON := range map[amboy.Format]bool{amboy.BSON: true, amboy.JSON: true, amboy.BSON2: false} {
		j, err := d.New(nil)
		require.NoError(t, err)
		require.NoError(t, amboy.RunJob(t.Context(), j))
		stored, err := registry.MakeJobInterchange(j, f)
		require.NoError(t, err)
		assert.Equal(t, []bool{isJSON, isJSON}, []bool{stored.Job.IsJSON(), stored.Result.IsJSON()}, "%s", f)
	}
}

// TestATypedJobOfAnEarlierVersionIsRead reads a job, its options and its result that were
// stored as BSON.
func TestATypedJobOfAnEarlierVersionIsRead(t *testing.T) {
	d := job.DefineResult(newName(), 1, func(context.Context, thumbnail) (string, error) { return "", nil })
	j, err := d.New(thumbnail{})
	require.NoError(t, err)
	for _, f := range formats {
		stored, err := registry.MakeJobInterchange(j, f)
		require.NoError(t, err)
		body, err := bson.Marshal(bson.M{
			"args":     bson.M{"path": "cat.png", "width": 64},
			"override": bson.M{"retry_policy": bson.M{"fixed": bson.M{"wait": int64(time.Second)}}},
		})
		require.NoError(t, err)
		stored.Job = registry.NewBody(body, false)
		body, err = bson.Marshal(bson.M{"value": "done"})
		require.NoError(t, err)
		result := registry.NewBody(body, false)
		stored.Result, stored.Status.Completed = &result, true
		got, err := stored.Resolve(f)
		require.NoError(t, err)
		args, err := d.Args(got)
		require.NoError(t, err)
		assert.Equal(t, thumbnail{"cat.png", 64}, args)
		assert.Equal(t, retry.Fixed{Wait: time.Second}, got.(amboy.RetryPolicyJob).RetryPolicy())
		left, err := d.ResultOf(got)
		require.NoError(t, err)
		assert.Equal(t, "done", left)
	}
}

func TestAnotherTypesBodyIsNotReadAsATypedJob(t *testing.T) {
	d := job.Define(newName(), 1, succeed[thumbnail])
	other := job.Define(newName(), 1, succeed[[]string])
	for _, f := range formats {
		j, err := other.New([]string{"x"})
		require.NoError(t, err)
		stored, err := registry.MakeJobInterchange(j, f)
		require.NoError(t, err)
		stored.Type = d.Type().Name
		_, err = stored.Resolve(f)
		var malformed *registry.MalformedError
		require.ErrorAs(t, err, &malformed)
		require.ErrorContains(t, err, `"args"`)
	}
	none := registry.JobInterchange{Name: "x", Type: d.Type().Name, Version: 1, Job: registry.NewBody([]byte(`{"path":"cat.png"}`), true)}
	_, err := none.Resolve(amboy.JSON)
	var malformed *registry.MalformedError
	require.ErrorAs(t, err, &malformed)
	assert.ErrorContains(t, err, `the field "args" is missing`)
}

func TestATypedJobIsUpgraded(t *testing.T) {
	name := newName()
	require.NoError(t, registry.AddJobUpgrade(name, 1, func(body map[string]any) error {
		body["args"] = map[string]any{"path": body["args"], "width": 64}
		return nil
	}))
	d := job.Define(name, 2, succeed[thumbnail])
	old := registry.JobInterchange{Name: "x", Type: name, Version: 1, Job: registry.NewBody([]byte(`{"args":"cat.png"}`), true)}
	j, err := old.Resolve(amboy.JSON)
	require.NoError(t, err)
	args, err := d.Args(j)
	require.NoError(t, err)
	assert.Equal(t, thumbnail{"cat.png", 64}, args)
}

func TestArgsThatCannotBeEncoded(t *testing.T) {
	d := job.Define(newName(), 1, succeed[any])
	for _, test := range []struct {
		args   any
		format amboy.Format
	}{
		{make(chan int), amboy.JSON}, {math.NaN(), amboy.JSON}, {make(chan int), amboy.BSON2}, {uint64(math.MaxUint64), amboy.BSON2},
	} {
		j, err := d.New(test.args, job.ID("x"))
		require.NoError(t, err)
		_, err = registry.MakeJobInterchange(j, test.format)
		var failure *registry.EncodeError
		require.ErrorAs(t, err, &failure, "%v", test)
		assert.Equal(t, "args", failure.Field)
		assert.Equal(t, "x", failure.JobID)
		assert.Equal(t, d.Type().Name, failure.Type)
		assert.Equal(t, test.format, failure.Format)
		if test.args == test.args { //nolint:gocritic // NaN is not.
			assert.Equal(t, test.args, failure.Value)
		}
		require.ErrorContains(t, err, fmt.Sprintf("%T", test.args))
	}
	j, err := d.New(math.NaN())
	require.NoError(t, err)
	_, err = registry.MakeJobInterchange(j, amboy.JSON)
	var cause *json.UnsupportedValueError
	assert.ErrorAs(t, err, &cause)
}

func TestPutErrors(t *testing.T) {
	d := job.Define(newName(), 1, succeed[string])
	q := queue.NewLocalLimitedSize(1, 10)
	require.NoError(t, q.Start(t.Context()))
	defer q.Close(context.Background())
	id, err := d.Put(t.Context(), q, "x", job.ID(strings.Repeat("i", amboy.MaxIDLength+1)))
	var invalid *amboy.InvalidJobError
	require.ErrorAs(t, err, &invalid)
	assert.Empty(t, id)

	q.Close(t.Context())
	_, err = d.Put(t.Context(), q, "x")
	assert.ErrorIs(t, err, amboy.ErrQueueClosed)
}

func TestRunJobRunsATypedJob(t *testing.T) {
	d := job.DefineResult(newName(), 1, func(ctx context.Context, s string) (int, error) {
		assert.NoError(t, job.SetProgress(ctx, 1, "all"))
		assert.NoError(t, job.Checkpoint(ctx, "later"))
		job.Log(ctx, "bye")
		if s == "" {
			return 1, errors.New("empty")
		}
		return len(s), nil
	})
	j, err := d.New("hello")
	require.NoError(t, err)
	require.NoError(t, amboy.RunJob(t.Context(), j))
	n, err := d.ResultOf(j)
	require.NoError(t, err)
	assert.Equal(t, 5, n)
	assert.Equal(t, "bye", amboy.ProgressOf(j).Log[0].Text)
	args, err := d.Args(j)
	require.NoError(t, err)
	assert.Equal(t, "later", args)

	j, err = d.New("")
	require.NoError(t, err)
	require.EqualError(t, amboy.RunJob(t.Context(), j), "empty")
	_, err = d.ResultOf(j)
	var none *job.NoResultError
	assert.ErrorAs(t, err, &none)
}

func TestArgsThatReferToThemselvesAreRefused(t *testing.T) {
	d := job.Define(newName(), 1, func(context.Context, map[string]any) error { return nil })
	args := map[string]any{}
	args["self"] = args
	_, err := d.New(args, job.Unique(job.Uniqueness{Args: true}))
	require.ErrorContains(t, err, "encountered a cycle")
}

func TestAPanicOfScopesIsAnError(t *testing.T) {
	d := job.Define(newName(), 1, func(context.Context, *time.Time) error { return nil },
		job.Defaults[*time.Time]{Scopes: func(at *time.Time) []string { return []string{at.String()} }})
	_, err := d.New(nil, job.ID("j"))
	var panicked *amboy.PanicError
	require.ErrorAs(t, err, &panicked)
	assert.ErrorContains(t, err, d.Type().Name)
}

func TestANilQueuePanics(t *testing.T) {
	d := job.DefineResult(newName(), 1, func(context.Context, string) (int, error) { return 1, nil })
	var typed *noQueue
	for _, q := range []amboy.Queue{nil, typed} {
		for name, use := range map[string]func() error{
			"Put":                         func() error { _, err := d.Put(t.Context(), q, "x"); return err },
			"Wait":                        func() error { _, err := d.Wait(t.Context(), q, "x"); return err },
			"PutAndWait":                  func() error { _, err := d.PutAndWait(t.Context(), q, "x"); return err },
			"Result":                      func() error { _, err := d.Result(t.Context(), q, "x"); return err },
			"Wait without a result":       func() error { return d.Definition.Wait(t.Context(), q, "x") },
			"PutAndWait without a result": func() error { return d.Definition.PutAndWait(t.Context(), q, "x") },
		} {
			var invalid *amboy.InvalidJobError
			require.ErrorAs(t, use(), &invalid, name)
			assert.Equal(t, "queue", invalid.Field, name)
			assert.ErrorContains(t, use(), fmt.Sprintf("of type %q: invalid job: queue must not be nil", d.Type().Name), name)
		}
	}
}

// noQueue is a type of queue of which there is only a nil pointer.
type noQueue struct{ amboy.Queue }

func TestLimitsAreAddedToScopes(t *testing.T) {
	d := job.Define(newName(), 1, func(context.Context, string) error { return nil }, job.Defaults[string]{
		Scopes: func(arg string) []string { return []string{arg} },
	})
	scopes := func(opts ...job.Option) (all, atPut []string) {
		j, err := d.New("arg", opts...)
		require.NoError(t, err)
		return j.Scopes(), j.EnqueueScopes()
	}
	all, _ := scopes(job.Limit("a", 1), job.Limit("b", 2), job.Limit("a", 3))
	assert.Equal(t, []string{"arg", "b (at most 2)", "a (at most 3)"}, all)
	all, _ = scopes(job.Limit("a", 1), job.Scopes())
	assert.Equal(t, []string{"a (at most 1)"}, all)
	all, atPut := scopes(job.Limit("a", 1), job.EnqueueScopes(true))
	assert.Equal(t, []string{"arg", "a (at most 1)"}, all)
	assert.Equal(t, []string{"arg"}, atPut, "limits are not taken at Put")
}
