package registry_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/registry"
)

// A store may keep the body and the other parts of an interchange form separately.
func TestAStoreMayKeepTheBodySeparately(t *testing.T) {
	for _, f := range []amboy.Format{amboy.BSON, amboy.JSON, amboy.BSON2} {
		t.Run(f.String(), func(t *testing.T) {
			j := job.NewShellJob("true", "")
			j.SetID("job")
			want, err := registry.MakeJobInterchange(j, f)
			require.NoError(t, err)
			require.Same(t, want.Dependency, registry.PlainDependency(f))
			assert.Equal(t, f == amboy.JSON, want.Job.IsJSON())
			assert.Equal(t, want.Raw(), want.Job.Raw())

			got := *want
			got.Job = registry.NewBody(want.Job.Raw(), want.Job.IsJSON())
			got.Dependency = registry.PlainDependency(f)
			assert.Equal(t, *want, got)
			resolved, err := got.Resolve(f)
			require.NoError(t, err)
			assert.Equal(t, "job", resolved.ID())
		})
	}
}

func TestInvalidParts(t *testing.T) {
	assert.Nil(t, registry.PlainDependency(-1))
	assert.Nil(t, registry.PlainDependency(3))
	assert.True(t, registry.NewBody(nil, false).IsZero())
	assert.Empty(t, registry.Body{}.Raw())

	j := job.NewShellJob("true", "")
	broken, err := registry.MakeJobInterchange(j, amboy.JSON)
	require.NoError(t, err)
	broken.Job = registry.NewBody([]byte("no JSON"), true)
	_, err = broken.Resolve(amboy.JSON)
	var malformed *registry.MalformedError
	assert.ErrorAs(t, err, &malformed)
}
