package management_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
)

// order contains arguments of many kinds.
type order struct {
	Customer int64     `bson:"customer" json:"customer"`
	Name     string    `bson:"name" json:"name"`
	Rush     bool      `bson:"rush" json:"rush"`
	Price    float64   `bson:"price" json:"price"`
	Lines    []string  `bson:"lines" json:"lines"`
	Until    time.Time `bson:"until" json:"until"`
}

var ship = job.Define("ship", 1, func(context.Context, order) error { return nil })

func TestFindJobsByTheirArguments(t *testing.T) {
	inspectEach(t, allViews, func(f *inspected) {
		for id, o := range map[string]order{
			"ann":  {Customer: 4711, Name: `Ann "the" <b>Great</b> & co`, Price: 2.5, Until: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)},
			"grüß": {Customer: 9007199254740993, Name: "Grüße\n", Rush: true, Lines: []string{"a", "b"}},
			"huge": {Customer: 4711, Name: strings.Repeat("x", management.MaxSearchedArgs)},
		} {
			_, err := ship.Put(f.ctx, f.queue, o, job.ID(id))
			require.NoError(f, err)
			f.wait(id)
		}
		for part, want := range map[string][]string{
			`4711`:               {"ann"},
			`"customer":4711`:    {"ann"},
			`ANN "THE" <B>`:      {"ann"},
			`& co`:               {"ann"},
			`"price":2.5`:        {"ann"},
			`2030-01-02T03:04:0`: {"ann"},
			`9007199254740993`:   {"grüß"},
			`"rush":true`:        {"grüß"},
			`["a","b"]`:          {"grüß"},
			"GRüßE\n":            {"grüß"},
			"grÜß":               {},
			`"args"`:             {},
			`ship`:               {},
		} {
			assert.Equal(f, want, f.found(management.JobFilter{ArgsPart: part}), part)
		}
		ann := management.JobFilter{Queues: []string{f.name}, ArgsPart: "4711"}
		counts, err := f.CountStates(f.ctx, management.StateCountRequest{Filter: ann})
		require.NoError(f, err)
		for _, count := range counts {
			assert.Equal(f, count.State == amboy.StateSucceeded, count.Count.Count == 1, count.State)
		}
		groups, err := f.ErrorGroups(f.ctx, management.ErrorGroupRequest{Filter: ann})
		require.NoError(f, err)
		assert.Zero(f, groups.Examined)
		acted, err := f.Act(f.ctx, management.ActRequest{Action: management.Action{Kind: management.Delete}, Filter: ann, Limit: 10})
		require.NoError(f, err)
		assert.Equal(f, 1, acted.Done+acted.Skipped)
		assert.Equal(f, []string{"grüß", "huge"}, f.found(management.JobFilter{Types: []string{"ship"}}))
	})
}

// An attacker who may not read encrypted arguments must not learn them from what a search finds.
func TestEncryptedArgumentsAreNotSearched(t *testing.T) {
	q, _ := newEncryptedQueue(t)
	_, err := post.Put(t.Context(), q, letter{To: "ann"}, job.ID("letter"))
	require.NoError(t, err)
	_, err = post.Wait(t.Context(), q, "letter")
	require.NoError(t, err)
	i, err := management.NewInspector(q)
	require.NoError(t, err)
	for _, part := range []string{"ann", "to", "{", "e"} {
		page, err := i.FindJobs(management.WithReveal(t.Context()), management.JobFilter{ArgsPart: part}, management.PageRequest{})
		require.NoError(t, err)
		assert.Empty(t, page.Jobs, part)
		count, err := i.CountJobs(t.Context(), management.JobFilter{ArgsPart: part}, 10)
		require.NoError(t, err)
		assert.Equal(t, management.Count{}, count, part)
	}
}

func TestAFilterByArgumentsDoesNotSelectAll(t *testing.T) {
	filter := management.JobFilter{ArgsPart: "x"}
	assert.False(t, filter.SelectsAll())
	encoded, err := json.Marshal(filter)
	require.NoError(t, err)
	assert.JSONEq(t, `{"args_part":"x"}`, string(encoded))
}
