package postgres_test

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// longName returns a name that does not become short when the server compresses it.
func longName(n int) string {
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(rand.Text())
	}
	return b.String()[:n]
}

// The scopes of a scheduled job were first written to an index when the job was due. The index takes
// no longer names, so from then on each claim from any queue of the schema failed.
func TestAScheduledJobWithALongScopeStopsNoClaims(t *testing.T) {
	for name, scopes := range map[string][]string{
		"scope":         {longName(3000)},
		"limited scope": {amboy.LimitScope(longName(1500), 2)},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := openEmpty(t)
			now := time.Now()
			scheduled := scoped("scheduled "+longName(1500), 0, scopes...)
			scheduled.TimeInfo.WaitUntil = now.Add(time.Minute)
			errs, err := d.Insert(t.Context(), []*driver.Record{scheduled, newRecord("job")})
			require.NoError(t, err)
			require.NoError(t, errs[1])
			records, _ := claimAt(t, d, 10, now.Add(time.Hour))
			assert.Equal(t, []string{"job"}, idsOf(records))
			var invalid *amboy.InvalidJobError
			require.ErrorAs(t, errs[0], &invalid)
			assert.Equal(t, "scope", invalid.Field)
		})
	}
}

func TestALongNameOfOneJobFailsNoOthersOfTheSameInsert(t *testing.T) {
	d, _ := openEmpty(t)
	unique, typed := newRecord("unique"), newRecord("typed")
	unique.UniqueKey, typed.Type = longName(3000), longName(3000)
	errs, err := d.Insert(t.Context(), []*driver.Record{newRecord(longName(3000)), unique, typed, newRecord("job")})
	require.NoError(t, err)
	for i, field := range []string{"ID", "unique key", "type"} {
		var invalid *amboy.InvalidJobError
		require.ErrorAs(t, errs[i], &invalid)
		assert.Equal(t, field, invalid.Field)
	}
	require.NoError(t, errs[3])
	assert.Equal(t, []string{"job"}, idsOf(claim(t, d, 10)))
}

func TestNamesOfTheLongestKindRun(t *testing.T) {
	d, _ := openEmpty(t)
	r := scoped(longName(2500), 0, longName(2500), amboy.LimitScope("limited", 2))
	r.Type, r.UniqueKey, r.UniqueUntil = longName(2500), longName(2500), amboy.UniqueUntilEnded
	insert(t.Context(), t, d, r)
	assert.Len(t, claim(t, d, 10), 1)
}
