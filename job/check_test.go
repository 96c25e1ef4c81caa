package job_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/job"
)

func TestARefusedDefinitionWasSilentUntilItsFirstUse(t *testing.T) {
	name := newName()
	job.Define(name, 1, succeed[string])
	if err := job.Check(); err != nil { // of other tests
		require.NotContains(t, err.Error(), name)
	}
	job.Define(name, 1, succeed[int])
	job.Define(name+"-negative", -1, succeed[int])
	err := job.Check()
	var duplicate *job.DuplicateDefinitionError
	require.ErrorAs(t, err, &duplicate)
	var invalid *job.InvalidDefinitionError
	require.ErrorAs(t, err, &invalid)
	require.ErrorContains(t, err, name)
	require.ErrorContains(t, err, name+"-negative")
}
