package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// A unique key without a word on how long it is held failed each claim from its queue, and each end.
func TestAUniqueKeyIsHeldUntilTheEndIfNothingElseIsSaid(t *testing.T) {
	d, _ := openEmpty(t)
	r := newRecord("job")
	r.UniqueKey = "key"
	insert(t.Context(), t, d, r)
	running := claim(t, d, 1)
	assert.Equal(t, []string{"job"}, idsOf(running))
	rival := newRecord("rival")
	rival.UniqueKey = "key"
	errs, err := d.Insert(t.Context(), []*driver.Record{rival})
	require.NoError(t, err)
	assert.True(t, amboy.IsDuplicateJobError(errs[0]))
	end(t.Context(), t, d, running[0], amboy.OutcomeCanceled)
	insert(t.Context(), t, d, rival)
}
