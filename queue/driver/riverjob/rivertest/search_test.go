package rivertest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/management"
)

// PostgreSQL stores arguments with spaces between values and in an order of its own. They are searched
// as the inspector shows them.
func TestArgumentsAreSearched(t *testing.T) {
	w := newWorld(t)
	inspector, err := management.NewStoreInspector(w.open())
	require.NoError(t, err)
	first := w.insert(pythonJob{kind: "send", args: `{"to": "Ann <ann@b>", "n": 4711, "list": ["a",   "b"]}`})
	// More jobs than one statement reads.
	w.exec(`INSERT INTO {s}.river_job (args, kind, max_attempts, queue) SELECT jsonb_build_object('n', n), 'count', 25, 'default' FROM generate_series(1, 1100) n`)
	last := w.insert(pythonJob{kind: "send", args: `{"to": "bob", "n": 14711}`})
	w.insert(pythonJob{kind: "send", args: fmt.Sprintf(`{"n": 4711, "text": %q}`, strings.Repeat("x", management.MaxSearchedArgs))})

	found := func(part string) (ids []string) {
		page := management.PageRequest{Limit: 1}
		for {
			got, failure := inspector.FindJobs(w.ctx, management.JobFilter{Queues: []string{"default"}, ArgsPart: part}, page)
			require.NoError(t, failure)
			for _, j := range got.Jobs {
				ids = append(ids, j.ID)
			}
			if got.Next == "" {
				return ids
			}
			page.Cursor = got.Next
		}
	}
	one, other := fmt.Sprint(first), fmt.Sprint(last)
	for part, want := range map[string][]string{
		`4711`:        {one, other},
		`"n":4711`:    {one},
		`ANN <`:       {one},
		`["a","b"]`:   {one},
		`"to":"bob"`:  {other},
		`"args"`:      nil,
		`xxx`:         nil,
		`"n": 4711`:   nil,
		`no such one`: nil,
	} {
		assert.Equal(t, want, found(part), part)
	}

	ann := management.JobFilter{Queues: []string{"default"}, ArgsPart: `"n":4711`}
	count, err := inspector.CountJobs(w.ctx, ann, 10)
	require.NoError(t, err)
	assert.Equal(t, management.Count{Count: 1}, count)
	acted, err := inspector.Act(w.ctx, management.ActRequest{Action: management.Action{Kind: management.Cancel}, Filter: ann, Limit: 10})
	require.NoError(t, err)
	assert.Equal(t, 1, acted.Done)
	assert.Equal(t, "cancelled", w.row(first).State)
	assert.Equal(t, "available", w.row(last).State)
}
