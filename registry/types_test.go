package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/mongodb/grip"
	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/send"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/registry"
)

// captureLog captures log messages until the test ends.
func captureLog(t *testing.T) *send.InternalSender {
	t.Helper()
	sender, err := send.NewInternalLogger("test", send.LevelInfo{Default: level.Info, Threshold: level.Debug})
	require.NoError(t, err)
	before := grip.GetSender()
	require.NoError(t, grip.SetSender(sender))
	t.Cleanup(func() { assert.NoError(t, grip.SetSender(before)) })
	return sender
}

func TestAddJobTypeAgainWarnsAndReplaces(t *testing.T) {
	first := func() amboy.Job { return newSample("first") }
	second := func() amboy.Job { return newSample("second") }
	log := captureLog(t)
	name := newType()

	registry.AddJobType(name, first)
	assert.False(t, log.HasMessage())
	registry.AddJobType(name, second)
	require.True(t, log.HasMessage())
	logged := log.GetMessage()
	assert.Equal(t, level.Warning, logged.Priority)
	assert.Contains(t, logged.Rendered, name)

	factory, err := registry.GetJobFactory(name)
	require.NoError(t, err)
	assert.Equal(t, "second", factory().ID())
}

func TestAddJobTypeRefusesBadInput(t *testing.T) {
	before := slices.Collect(typeNames)
	for name, add := range map[string]func(){
		"no name":    func() { registry.AddJobType("", func() amboy.Job { return newSample("a") }) },
		"no factory": func() { registry.AddJobType("no-factory", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			log := captureLog(t)
			add()
			require.True(t, log.HasMessage())
			assert.Equal(t, level.Error, log.GetMessage().Priority)
			assert.Equal(t, before, slices.Collect(typeNames))
		})
	}
}

func typeNames(yield func(string) bool) {
	for name := range registry.JobTypeNames() {
		if !yield(name) {
			return
		}
	}
}

func TestJobTypeNames(t *testing.T) {
	onlyAnUpgrade := newType()
	require.NoError(t, registry.AddJobUpgrade(onlyAnUpgrade, 0, func(map[string]any) error { return nil }))
	names := slices.Collect(typeNames)
	assert.True(t, slices.IsSorted(names))
	assert.Contains(t, names, "sample")
	assert.Contains(t, names, "shell")
	assert.Contains(t, names, "group")
	assert.NotContains(t, names, onlyAnUpgrade)
}

func TestUnknownNames(t *testing.T) {
	_, err := registry.GetJobFactory("no-such-type")
	isUnknownType("", "no-such-type")(t, err)
	_, err = registry.GetDependencyFactory("no-such-type")
	require.ErrorIs(t, err, dependency.ErrUnknownType)
	_, err = registry.GetCheckFactory("no-such-check")
	require.ErrorIs(t, err, dependency.ErrUnknownType)
}

func TestDependencyAndCheckTypes(t *testing.T) {
	registry.AddDependencyType("mine", dependency.NewAlways)
	factory, err := registry.GetDependencyFactory("mine")
	require.NoError(t, err)
	assert.Equal(t, dependency.Ready, factory().State())

	registry.AddCheckType("my-check", func() dependency.CheckFunc {
		return func([]string) dependency.State { return dependency.Passed }
	})
	check, err := registry.GetCheckFactory("my-check")
	require.NoError(t, err)
	assert.Equal(t, dependency.Passed, check()(nil))
}

func TestConcurrentRegistration(t *testing.T) {
	names := []string{newType(), newType(), newType(), newType()}
	errs := make([]error, len(names))
	var running sync.WaitGroup
	for n, name := range names {
		running.Go(func() {
			registry.AddJobType(name, func() amboy.Job { return newSample(name) })
			upgradeErr := registry.AddJobUpgrade(name, 0, func(map[string]any) error { return nil })
			_, err := registry.GetJobFactory(name)
			errs[n] = errors.Join(upgradeErr, err)
			for range registry.JobTypeNames() {
			}
		})
	}
	running.Wait()
	require.NoError(t, errors.Join(errs...))
	for _, name := range names {
		factory, err := registry.GetJobFactory(name)
		require.NoError(t, err)
		assert.Equal(t, name, factory().ID())
	}
}

func TestAddJobUpgradeErrors(t *testing.T) {
	upgrade := func(map[string]any) error { return nil }
	upgradedOnce := newType()
	require.NoError(t, registry.AddJobUpgrade(upgradedOnce, 4, upgrade))
	for name, test := range map[string]struct {
		typeName string
		from     int
		upgrade  registry.JobUpgrade
		want     string
	}{
		"no name":          {"", 0, upgrade, "type name must not be empty"},
		"negative version": {upgradedOnce, -1, upgrade, "version must not be negative (is -1)"},
		"no function":      {upgradedOnce, 5, nil, "function must not be nil"},
		"twice":            {upgradedOnce, 4, upgrade, "version 4 already has one"},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, registry.AddJobUpgrade(test.typeName, test.from, test.upgrade), test.want)
		})
	}
}

// The three versions of a type: a size in kilobytes became a size in bytes, which then
// moved into a document.
type (
	upload0 struct {
		Kilobytes int64 `bson:"kilobytes" json:"kilobytes"`
		Serial    int64 `bson:"serial" json:"serial"`
		job.Base  `bson:"job_base" json:"job_base"`
	}
	upload2 struct {
		Size     uploadSize `bson:"size" json:"size"`
		Serial   int64      `bson:"serial" json:"serial"`
		job.Base `bson:"job_base" json:"job_base"`
	}
	uploadSize struct {
		Bytes int64 `bson:"bytes" json:"bytes"`
	}
)

func (*upload0) Run(context.Context) {}
func (*upload2) Run(context.Context) {}

// integer reads a number of an upgraded body that was decoded from BSON or JSON.
func integer(v any) (int64, error) {
	switch v := v.(type) {
	case int64:
		return v, nil
	case json.Number:
		return v.Int64()
	default:
		return 0, fmt.Errorf("%T is not a number", v)
	}
}

// storeOld stores an upload under version 0 of a type.
func storeOld(t *testing.T, name string, f amboy.Format) *registry.JobInterchange {
	t.Helper()
	registry.AddJobType(name, func() amboy.Job { return &upload0{} })
	old := &upload0{Kilobytes: 1<<52 + 1, Serial: 1<<62 + 1}
	old.SetID("upload")
	old.SetType(amboy.JobType{Name: name})
	stored, err := registry.MakeJobInterchange(old, f)
	require.NoError(t, err)

	registry.AddJobType(name, func() amboy.Job {
		return &upload2{Base: job.Base{JobType: amboy.JobType{Name: name, Version: 2}}}
	})
	return stored
}

func TestUpgradesChain(t *testing.T) {
	for _, f := range formats {
		t.Run(f.String(), func(t *testing.T) {
			name := newType()
			stored := storeOld(t, name, f)
			require.NoError(t, registry.AddJobUpgrade(name, 1, func(body map[string]any) error {
				body["size"] = map[string]any{"bytes": body["bytes"]}
				return nil
			}))
			_, err := stored.Resolve(f)
			isA[*registry.VersionError](t, err)

			require.NoError(t, registry.AddJobUpgrade(name, 0, func(body map[string]any) error {
				kilobytes, convertErr := integer(body["kilobytes"])
				body["bytes"] = kilobytes << 10
				return convertErr
			}))
			j, err := stored.Resolve(f)
			require.NoError(t, err)
			upgraded := j.(*upload2)
			assert.Equal(t, "upload", upgraded.ID())
			assert.Equal(t, amboy.JobType{Name: name, Version: 2}, upgraded.Type())
			assert.Equal(t, int64(1<<62+1<<10), upgraded.Size.Bytes)
			assert.Equal(t, int64(1<<62+1), upgraded.Serial, "a field that no upgrade touched")
			assert.Equal(t, 0, stored.Version, "the stored form is unchanged")

			again, err := registry.MakeJobInterchange(j, f)
			require.NoError(t, err)
			assert.Equal(t, 2, again.Version)
		})
	}
}

func TestUpgradeFailures(t *testing.T) {
	errBroken := errors.New("broken")
	for name, test := range map[string]struct {
		upgrade registry.JobUpgrade
		check   func(*testing.T, error)
	}{
		"error":         {func(map[string]any) error { return errBroken }, func(t *testing.T, err error) { t.Helper(); require.ErrorIs(t, err, errBroken) }},
		"panic":         {func(map[string]any) error { panic(errBroken) }, isA[*amboy.PanicError]},
		"not encodable": {func(body map[string]any) error { body["x"] = make(chan int); return nil }, says("encoding the upgraded body")},
		"wrong type":    {func(body map[string]any) error { body["size"] = "large"; return nil }, isA[*registry.MalformedError]},
	} {
		for _, f := range formats {
			t.Run(name+" in "+f.String(), func(t *testing.T) {
				typeName := newType()
				stored := storeOld(t, typeName, f)
				require.NoError(t, registry.AddJobUpgrade(typeName, 0, test.upgrade))
				require.NoError(t, registry.AddJobUpgrade(typeName, 1, func(map[string]any) error { return nil }))
				j, err := stored.Resolve(f)
				require.Error(t, err)
				assert.Nil(t, j)
				isA[*registry.MalformedError](t, err)
				test.check(t, err)
			})
		}
	}
}
