package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/registry"
)

// roundTrip encodes a job, encodes and decodes its interchange form, and resolves it.
func roundTrip(t *testing.T, j amboy.Job, f amboy.Format) amboy.Job {
	t.Helper()
	made, err := registry.MakeJobInterchange(j, f)
	require.NoError(t, err)
	data, err := made.Encode(f)
	require.NoError(t, err)
	read, err := registry.DecodeJobInterchange(data, f)
	require.NoError(t, err)
	require.Equal(t, made.JobID(), read.JobID())
	resolved, err := read.Resolve(f)
	require.NoError(t, err)
	return resolved
}

func TestJobRoundTrip(t *testing.T) {
	for _, f := range formats {
		t.Run(f.String(), func(t *testing.T) {
			j := newSample("report")
			j.Path, j.Bytes = "docs/report.txt", 1<<62+1
			j.Tags, j.Labels = []string{"a", "b"}, map[string]string{"kind": "report"}
			j.Fail, j.Hold = true, true

			got, ok := roundTrip(t, j, f).(*sample)
			require.True(t, ok)
			assert.Equal(t, j.ID(), got.ID())
			assert.Equal(t, j.Type(), got.Type())
			assert.Equal(t, j.Path, got.Path)
			assert.Equal(t, j.Bytes, got.Bytes)
			assert.Equal(t, j.Tags, got.Tags)
			assert.Equal(t, j.Labels, got.Labels)
			assert.True(t, got.Fail)
			assert.True(t, got.Hold)
			assert.NotSame(t, j, got)
		})
	}
}

func TestNilSlicesAndMaps(t *testing.T) {
	for f, want := range map[amboy.Format]struct{ tags, labels bson.RawValue }{
		amboy.BSON: {
			tags:   bson.RawValue{Type: bson.TypeArray, Value: []byte{5, 0, 0, 0, 0}},
			labels: bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: []byte{5, 0, 0, 0, 0}},
		},
		amboy.BSON2: {
			tags:   bson.RawValue{Type: bson.TypeNull, Value: []byte{}},
			labels: bson.RawValue{Type: bson.TypeNull, Value: []byte{}},
		},
	} {
		t.Run(f.String(), func(t *testing.T) {
			made, err := registry.MakeJobInterchange(newSample("empty"), f)
			require.NoError(t, err)
			raw := bson.Raw(made.Raw())
			assert.Equal(t, want.tags, raw.Lookup("tags"))
			assert.Equal(t, want.labels, raw.Lookup("labels"))
			assert.Equal(t, want.tags, raw.Lookup("job_base", "required_scopes"))
			for _, reader := range formats {
				_, err = made.Resolve(reader)
				require.NoError(t, err, "either is read under any format")
			}
		})
	}
}

// TestBodyInOtherFormat stores a BSON job in a JSON document, and the reverse.
func TestBodyInOtherFormat(t *testing.T) {
	for _, inner := range formats {
		for _, outer := range formats {
			t.Run(inner.String()+" in "+outer.String(), func(t *testing.T) {
				j := newSample("nested")
				j.Bytes = 1<<53 + 1
				made, err := registry.MakeJobInterchange(j, inner)
				require.NoError(t, err)
				data, err := made.Encode(outer)
				require.NoError(t, err)
				read, err := registry.DecodeJobInterchange(data, outer)
				require.NoError(t, err)
				assert.Equal(t, made.Raw(), read.Raw())
				got, err := read.Resolve(inner)
				require.NoError(t, err)
				assert.Equal(t, j.Bytes, got.(*sample).Bytes)
			})
		}
	}
}

func TestJobID(t *testing.T) {
	for name, test := range map[string]struct {
		in   registry.JobInterchange
		want string
	}{
		"plain":            {registry.JobInterchange{Name: "a.b"}, "a.b"},
		"group":            {registry.JobInterchange{Name: "g.a.b", Group: "g"}, "a.b"},
		"group in the ID":  {registry.JobInterchange{Name: "g.g.a", Group: "g"}, "g.a"},
		"attempt":          {registry.JobInterchange{Name: "attempt-2.a", RetryInfo: amboy.JobRetryInfo{Retryable: true, BaseJobID: "a"}}, "a"},
		"group, attempt":   {registry.JobInterchange{Name: "g.attempt-2.a", Group: "g", RetryInfo: amboy.JobRetryInfo{Retryable: true, BaseJobID: "a"}}, "a"},
		"only looks alike": {registry.JobInterchange{Name: "attempt-2.a"}, "attempt-2.a"},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, test.want, test.in.JobID()) })
	}
}

// These types embed Base in every supported way.
type (
	namedBase struct {
		Own      string `bson:"own" json:"own"`
		job.Base `bson:"job_base" json:"job_base"`
	}
	inlineBase struct {
		Own      string `bson:"own" json:"own"`
		job.Base `bson:",inline"`
	}
	untaggedBase struct {
		Own string `bson:"own" json:"own"`
		job.Base
	}
	hiddenBase struct {
		Own      string `bson:"own" json:"own"`
		job.Base `bson:"-" json:"-"`
	}
	shadowedBase struct {
		Name     string `bson:"name" json:"name"`
		job.Base `bson:"job_base" json:"job_base"`
	}
	pointerBase struct {
		Own       string `bson:"own" json:"own"`
		*job.Base `bson:"metadata" json:"metadata"`
	}
)

func (*namedBase) Run(context.Context)    {}
func (*inlineBase) Run(context.Context)   {}
func (*untaggedBase) Run(context.Context) {}
func (*hiddenBase) Run(context.Context)   {}
func (*shadowedBase) Run(context.Context) {}
func (*pointerBase) Run(context.Context)  {}

func TestBaseUnderAnyTag(t *testing.T) {
	for name, test := range map[string]struct {
		make func(amboy.JobType) amboy.Job
		own  func(amboy.Job) *string
	}{
		"named": {
			func(jt amboy.JobType) amboy.Job { return &namedBase{Base: job.Base{JobType: jt}} },
			func(j amboy.Job) *string { return &j.(*namedBase).Own },
		},
		"inline": {
			func(jt amboy.JobType) amboy.Job { return &inlineBase{Base: job.Base{JobType: jt}} },
			func(j amboy.Job) *string { return &j.(*inlineBase).Own },
		},
		"untagged": {
			func(jt amboy.JobType) amboy.Job { return &untaggedBase{Base: job.Base{JobType: jt}} },
			func(j amboy.Job) *string { return &j.(*untaggedBase).Own },
		},
		"hidden": {
			func(jt amboy.JobType) amboy.Job { return &hiddenBase{Base: job.Base{JobType: jt}} },
			func(j amboy.Job) *string { return &j.(*hiddenBase).Own },
		},
		"shadowed": {
			func(jt amboy.JobType) amboy.Job { return &shadowedBase{Base: job.Base{JobType: jt}} },
			func(j amboy.Job) *string { return &j.(*shadowedBase).Name },
		},
		"pointer": {
			func(jt amboy.JobType) amboy.Job { return &pointerBase{Base: &job.Base{JobType: jt}} },
			func(j amboy.Job) *string { return &j.(*pointerBase).Own },
		},
	} {
		jobType := amboy.JobType{Name: "base-" + name, Version: 3}
		registry.AddJobType(jobType.Name, func() amboy.Job { return test.make(jobType) })
		for _, f := range formats {
			t.Run(name+" as "+f.String(), func(t *testing.T) {
				want := test.make(jobType)
				*test.own(want) = "mine"
				setEverything(t, want)

				got := roundTrip(t, want, f)
				assert.Equal(t, "mine", *test.own(got))
				assertSameState(t, want, got)
			})
		}
	}
}

// setEverything sets every property that queues use of a job.
func setEverything(t *testing.T, j amboy.Job) {
	t.Helper()
	j.(interface{ SetID(string) }).SetID("group.one/job 1")
	j.(amboy.Prioritized).SetPriority(-7)
	j.SetScopes([]string{"a", "b", "c"})
	j.SetEnqueueScopes("c", "a")
	j.SetStatus(amboy.JobStatusInfo{
		Owner:             "owner",
		InProgress:        true,
		ModificationTime:  at(1),
		ModificationCount: 4,
		Errors:            []string{"one", "two"},
		Attempts:          []amboy.AttemptError{{Attempt: 1, At: at(2), Error: "one", Stack: "main.main()"}},
		DroppedErrors:     9,
		Hold:              amboy.HoldParked,
		Reason:            "set aside",
	})
	j.SetTimeInfo(amboy.JobTimeInfo{
		Created: at(3), Start: at(4), End: at(5), WaitUntil: at(6), DispatchBy: at(7), MaxTime: time.Hour + 1,
	})
	j.UpdateRetryInfo(amboy.JobRetryOptions{
		Retryable: ptr(true), NeedsRetry: ptr(true), CurrentAttempt: ptr(2), MaxAttempts: ptr(5),
		DispatchBy: ptr(time.Minute), WaitUntil: ptr(time.Second + 1), Start: ptr(at(8)), End: ptr(at(9)),
	})
	dep := dependency.NewCheckManager("weather")
	require.NoError(t, dep.AddEdge("first"))
	require.NoError(t, dep.AddEdge("second"))
	dep.(dependency.FailureChooser).SetOnFailure(dependency.RunOnFailure)
	j.SetDependency(dep)
}

func assertSameState(t *testing.T, want, got amboy.Job) {
	t.Helper()
	assert.Equal(t, want.ID(), got.ID())
	assert.Equal(t, want.Type(), got.Type())
	assert.Equal(t, want.Scopes(), got.Scopes())
	assert.Equal(t, want.EnqueueScopes(), got.EnqueueScopes())
	assert.Equal(t, want.EnqueueAllScopes(), got.EnqueueAllScopes())
	assert.Equal(t, amboy.PriorityOf(want), amboy.PriorityOf(got))
	assert.Equal(t, want.Status(), got.Status())
	assert.Equal(t, want.TimeInfo(), got.TimeInfo())
	assert.Equal(t, want.RetryInfo(), got.RetryInfo())
	assert.Equal(t, want.Error(), got.Error())

	wantDep, gotDep := want.Dependency(), got.Dependency()
	assert.Equal(t, wantDep.Type(), gotDep.Type())
	assert.Equal(t, wantDep.Edges(), gotDep.Edges())
	assert.Equal(t, wantDep.(dependency.FailureChooser).OnFailure(), gotDep.(dependency.FailureChooser).OnFailure())
}

func TestDependencyRoundTrip(t *testing.T) {
	file := dependency.MakeLocalFile()
	file.Targets, file.Dependencies = []string{"out"}, []string{"in", "also in"}
	for name, dep := range map[string]dependency.Manager{
		"always":       dependency.NewAlways(),
		"creates file": dependency.NewCreatesFile("/nonexistent"),
		"local file":   file,
		"check":        dependency.NewCheckManager("weather"),
		"mock":         dependency.NewMock(),
	} {
		require.NoError(t, dep.AddEdge("plain"))
		for _, f := range formats {
			t.Run(name+" as "+f.String(), func(t *testing.T) {
				j := newSample("depends")
				j.SetDependency(dep)
				assert.Equal(t, dep, roundTrip(t, j, f).Dependency())
			})
		}
	}
}

// TestEnqueueScopesOfFactoryGiveWay checks that stored enqueue scopes override those that
// the factory sets.
func TestEnqueueScopesOfFactoryGiveWay(t *testing.T) {
	registry.AddJobType("greedy", func() amboy.Job {
		j := &namedBase{Base: job.Base{JobType: amboy.JobType{Name: "greedy"}}}
		j.SetEnqueueScopes("a")
		return j
	})
	j := &namedBase{Base: job.Base{JobType: amboy.JobType{Name: "greedy"}}}
	j.SetID("modest")
	j.SetScopes([]string{"a"})
	for _, f := range formats {
		assert.Empty(t, roundTrip(t, j, f).EnqueueScopes(), f)
	}
}

// TestTypeOfFactoryWithoutOne uses a type whose factory sets no type name.
func TestTypeOfFactoryWithoutOne(t *testing.T) {
	registry.AddJobType("unnamed", func() amboy.Job { return &hiddenBase{} })
	j := &hiddenBase{Base: job.Base{Name: "a", JobType: amboy.JobType{Name: "unnamed"}}}
	for _, f := range formats {
		assert.Equal(t, j.Type(), roundTrip(t, j, f).Type())
	}
}

// unusual has methods that fail.
type unusual struct {
	job.Base `bson:"job_base" json:"job_base"`
	encode   func() ([]byte, error)
	decode   func() error
}

func (*unusual) Run(context.Context)            {}
func (u *unusual) MarshalJSON() ([]byte, error) { return u.encode() }
func (u *unusual) MarshalBSON() ([]byte, error) { return u.encode() }
func (u *unusual) UnmarshalJSON([]byte) error   { return u.decode() }
func (u *unusual) UnmarshalBSON([]byte) error   { return u.decode() }

func newUnusual(encode func() ([]byte, error)) *unusual {
	u := &unusual{encode: encode, decode: func() error { panic("cannot decode") }}
	u.SetID("odd")
	u.SetType(amboy.JobType{Name: "unusual"})
	return u
}

func init() {
	registry.AddJobType("unusual", func() amboy.Job { return newUnusual(nil) })
	registry.AddJobType("never-made", func() amboy.Job { panic("cannot make") })
	registry.AddJobType("nil-made", func() amboy.Job { return (*sample)(nil) })
	registry.AddDependencyType("nil-made", func() dependency.Manager { return nil })
}

// foreign is a dependency manager whose type is not registered.
type foreign struct{ dependency.Always }

func (*foreign) Type() dependency.TypeInfo { return dependency.TypeInfo{Name: "foreign"} }

func TestMakeJobInterchangeErrors(t *testing.T) {
	errBroken := errors.New("broken")
	unregistered := newSample("unregistered")
	unregistered.SetType(amboy.JobType{Name: "no-such-type"})
	foreignDependency := newSample("foreign-dependency")
	foreignDependency.SetDependency(&foreign{})

	for name, test := range map[string]struct {
		job    amboy.Job
		format amboy.Format
		check  func(*testing.T, error)
	}{
		"nil":            {nil, amboy.BSON, isA[*amboy.InvalidJobError]},
		"nil pointer":    {(*sample)(nil), amboy.BSON, isA[*amboy.InvalidJobError]},
		"invalid format": {newSample("a"), 17, says("17 is not a format")},
		"unknown type":   {unregistered, amboy.JSON, isUnknownType("unregistered", "no-such-type")},
		"unknown dependency": {foreignDependency, amboy.BSON, func(t *testing.T, err error) {
			t.Helper()
			require.ErrorIs(t, err, dependency.ErrUnknownType)
		}},
		"encoding fails": {newUnusual(func() ([]byte, error) { return nil, errBroken }), amboy.JSON, func(t *testing.T, err error) {
			t.Helper()
			require.ErrorIs(t, err, errBroken)
			require.ErrorContains(t, err, `"odd"`)
		}},
		"encoding panics in BSON": {newUnusual(func() ([]byte, error) { panic("no") }), amboy.BSON, isA[*amboy.PanicError]},
		"encoding panics in JSON": {newUnusual(func() ([]byte, error) { panic("no") }), amboy.JSON, isA[*amboy.PanicError]},
		"no JSON object":          {newUnusual(func() ([]byte, error) { return []byte(`"text"`), nil }), amboy.JSON, says("JSON object")},
		"null":                    {newUnusual(func() ([]byte, error) { return []byte("null"), nil }), amboy.JSON, says("JSON object")},
		"a method panics":         {&pointerBase{}, amboy.BSON, isA[*amboy.PanicError]},
	} {
		t.Run(name, func(t *testing.T) {
			made, err := registry.MakeJobInterchange(test.job, test.format)
			require.Error(t, err)
			test.check(t, err)
			assert.Nil(t, made)
		})
	}
}

func TestResolveErrors(t *testing.T) {
	body := func(text string) registry.Body {
		var b registry.Body
		require.NoError(t, json.Unmarshal([]byte(text), &b))
		return b
	}
	valid := body(`{"path": "p"}`)
	dep := func(name string, version int, b registry.Body) *registry.DependencyInterchange {
		return &registry.DependencyInterchange{Type: name, Version: version, Dependency: b}
	}
	for name, test := range map[string]struct {
		in    registry.JobInterchange
		check func(*testing.T, error)
	}{
		"unknown type":      {registry.JobInterchange{Name: "g.x", Group: "g", Type: "no-such-type", Job: valid}, isUnknownType("x", "no-such-type")},
		"newer version":     {registry.JobInterchange{Type: "sample", Version: 2, Job: valid}, isVersion(2, 1)},
		"no upgrade":        {registry.JobInterchange{Type: "sample", Version: 0, Job: valid}, isVersion(0, 1)},
		"negative version":  {registry.JobInterchange{Type: "sample", Version: -1 << 62, Job: valid}, isVersion(-1<<62, 1)},
		"no body":           {registry.JobInterchange{Type: "sample", Version: 1}, isA[*registry.MalformedError]},
		"wrong field type":  {registry.JobInterchange{Type: "sample", Version: 1, Job: body(`{"path": 7}`)}, isA[*registry.MalformedError]},
		"factory panics":    {registry.JobInterchange{Type: "never-made", Job: valid}, isMalformedPanic},
		"factory gives nil": {registry.JobInterchange{Type: "nil-made", Job: valid}, isA[*registry.MalformedError]},
		"decoding panics":   {registry.JobInterchange{Type: "unusual", Job: valid}, isMalformedPanic},
		"a method panics":   {registry.JobInterchange{Type: "group", Version: 1, Job: body(`{"metadata": null}`)}, isMalformedPanic},
		"unknown dependency": {
			registry.JobInterchange{Type: "sample", Version: 1, Job: valid, Dependency: dep("no-such-type", 0, valid)},
			func(t *testing.T, err error) { t.Helper(); require.ErrorIs(t, err, dependency.ErrUnknownType) },
		},
		"newer dependency":         {registry.JobInterchange{Type: "sample", Version: 1, Job: valid, Dependency: dep("always", 1, valid)}, isManagerVersion},
		"dependency of two types":  {registry.JobInterchange{Type: "sample", Version: 1, Job: valid, Dependency: dep("always", 0, body(`{"type": {"name": "check"}}`))}, isA[*registry.MalformedError]},
		"dependency without body":  {registry.JobInterchange{Type: "sample", Version: 1, Job: valid, Dependency: dep("always", 0, registry.Body{})}, isA[*registry.MalformedError]},
		"dependency factory's nil": {registry.JobInterchange{Type: "sample", Version: 1, Job: valid, Dependency: dep("nil-made", 0, valid)}, isMalformedPanic},
	} {
		t.Run(name, func(t *testing.T) {
			for _, f := range formats {
				resolved, err := test.in.Resolve(f)
				require.Error(t, err)
				test.check(t, err)
				assert.Nil(t, resolved)
			}
		})
	}
	_, err := (&registry.JobInterchange{Name: "x", Type: "sample"}).Resolve(-1)
	require.ErrorContains(t, err, "not a format")
}

func isManagerVersion(t *testing.T, err error) {
	t.Helper()
	var version *registry.VersionError
	require.ErrorAs(t, err, &version)
	assert.Equal(t, registry.VersionError{Type: "sample", Manager: "always", Stored: 1, Current: 0}, *version)
	assert.ErrorContains(t, err, `the dependency of type "always" of job "" was stored under version 1, but this process has version 0`)
}

func TestDecodeJobInterchangeErrors(t *testing.T) {
	encoded := func(v any) string {
		data, err := bson.Marshal(v)
		require.NoError(t, err)
		return string(data)
	}
	type m = bson.M
	for name, test := range map[string]struct {
		format amboy.Format
		data   string
	}{
		"no BSON":               {amboy.BSON, ""},
		"text as BSON":          {amboy.BSON, `{"name": "x"}`},
		"BSON cut short":        {amboy.BSON2, encoded(m{"_id": "x"})[:8]},
		"BSON and more":         {amboy.BSON, encoded(m{"_id": "x"}) + "\x00"},
		"BSON length lies":      {amboy.BSON, "\x06\x00\x00\x00\x00"},
		"ID is a number":        {amboy.BSON, encoded(m{"_id": 7})},
		"job is a number":       {amboy.BSON, encoded(m{"job": 7})},
		"job is an array":       {amboy.BSON, encoded(m{"job": bson.A{}})},
		"job is text":           {amboy.BSON, encoded(m{"job": "text"})},
		"job is JSON cut short": {amboy.BSON, encoded(m{"job": `{"path"`})},
		"job is a JSON string":  {amboy.BSON, encoded(m{"job": `"text"`})},
		"no JSON":               {amboy.JSON, ""},
		"BSON as JSON":          {amboy.JSON, encoded(m{"_id": "x"})},
		"JSON cut short":        {amboy.JSON, `{"name": "x"`},
		"JSON and more":         {amboy.JSON, `{"name": "x"} {}`},
		"JSON null":             {amboy.JSON, `null`},
		"JSON array":            {amboy.JSON, `[]`},
		"name is a number":      {amboy.JSON, `{"name": 7}`},
		"JSON job is a number":  {amboy.JSON, `{"job": 7}`},
		"job is not base64":     {amboy.JSON, `{"job": "?"}`},
		"job is not BSON":       {amboy.JSON, `{"job": "AAAA"}`},
	} {
		t.Run(name, func(t *testing.T) {
			read, err := registry.DecodeJobInterchange([]byte(test.data), test.format)
			isA[*registry.MalformedError](t, err)
			assert.Nil(t, read)
		})
	}
	_, err := registry.DecodeJobInterchange([]byte("{}"), 3)
	require.ErrorContains(t, err, "not a format")
}

func TestMalformedErrorNamesJob(t *testing.T) {
	_, err := (&registry.JobInterchange{Name: "g.x", Group: "g", Type: "sample", Version: 1}).Resolve(amboy.BSON)
	var malformed *registry.MalformedError
	require.ErrorAs(t, err, &malformed)
	assert.Equal(t, "x", malformed.JobID)
	assert.Equal(t, "sample", malformed.Type)
	require.ErrorIs(t, err, malformed.Err)
	assert.ErrorContains(t, err, `job "x" of type "sample"`)
}

// isA checks that an error is, or wraps, an error of type E.
func isA[E error](t *testing.T, err error) {
	t.Helper()
	var target E
	require.ErrorAs(t, err, &target)
}

func says(text string) func(*testing.T, error) {
	return func(t *testing.T, err error) {
		t.Helper()
		require.ErrorContains(t, err, text)
	}
}

func isUnknownType(id, name string) func(*testing.T, error) {
	return func(t *testing.T, err error) {
		t.Helper()
		require.ErrorIs(t, err, registry.ErrUnknownType)
		var unknown *registry.UnknownTypeError
		require.ErrorAs(t, err, &unknown)
		assert.Equal(t, registry.UnknownTypeError{JobID: id, Type: name}, *unknown)
	}
}

func isVersion(stored, current int) func(*testing.T, error) {
	return func(t *testing.T, err error) {
		t.Helper()
		var version *registry.VersionError
		require.ErrorAs(t, err, &version)
		assert.Equal(t, registry.VersionError{Type: "sample", Stored: stored, Current: current}, *version)
	}
}

func isMalformedPanic(t *testing.T, err error) {
	t.Helper()
	isA[*registry.MalformedError](t, err)
	isA[*amboy.PanicError](t, err)
}

// linked is a job that can refer to itself.
type linked struct {
	sample
	Next *linked `bson:"next" json:"next"`
	Any  any     `bson:"any" json:"any"`
}

func TestAJobThatRefersToItselfIsRefused(t *testing.T) {
	name := newType()
	newLinked := func() *linked {
		j := &linked{}
		j.SetType(amboy.JobType{Name: name})
		j.SetID("j")
		return j
	}
	require.NoError(t, registry.RegisterJobType(name, func() amboy.Job { return newLinked() }))
	loop := map[string]any{}
	loop["self"] = []any{loop}
	for _, f := range []amboy.Format{amboy.BSON, amboy.BSON2, amboy.JSON} {
		j := newLinked()
		j.Next, j.Any = newLinked(), map[string]any{"a": []any{1, "b"}}
		_, err := registry.MakeJobInterchange(j, f)
		require.NoError(t, err)

		var failure *registry.EncodeError
		j.Any = loop
		_, err = registry.MakeJobInterchange(j, f)
		require.ErrorAs(t, err, &failure)
		j.Any, j.Next.Next = nil, j
		_, err = registry.MakeJobInterchange(j, f)
		require.ErrorAs(t, err, &failure)
	}
}
