package mongodb_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue/driver"
)

// ofType returns a record of a queue with a job of a type.
func ofType(queue, id, jobType string) *driver.Record {
	return plainRecord(id, func(r *driver.Record) { r.Type, r.Group, r.Name = jobType, queue, queue+"."+id })
}

// A claim that excludes a kind costs as much with a backlog of that kind as without, and
// no more commands than any claim, once the driver has met the other kinds.
func TestAClaimPassesOverABacklogOfAnUnknownKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const backlog, wanted, types = 1000, 6, 3
		server, err := mongotest.New(mongotest.Options{InMemory: true})
		require.NoError(t, err)
		t.Cleanup(server.Close)
		s := newStoreOn(t, server.ClientOptions())
		d := s.open()
		for _, queues := range [][]string{{"a", "b"}, {"a", "b", "c", "d", "e", "f", "g", "h", "i"}} {
			var records []*driver.Record
			for i := range backlog {
				records = append(records, ofType("a", fmt.Sprint(len(queues), "new", i), "new"))
			}
			for i := range 2 * wanted {
				records = append(records, ofType("b", fmt.Sprint(len(queues), "old", i), fmt.Sprint("old", i%types)))
			}
			insert(t, d, records...)
			req := request("old", wanted, queues...)
			req.Except = []driver.Kind{{Type: "new"}}
			assert.Len(t, claim(t, d, req), wanted) // the driver meets the other kinds
			commands := 2
			if len(queues) > 8 {
				commands = 3
			}
			synctest.Wait() // for the first sweep
			was := server.Examined()
			sent := s.commands(func() {
				given := claim(t, d, req)
				want := make([]string, wanted)
				for i := range want {
					want[i] = fmt.Sprint("b.", len(queues), "old", wanted+i)
				}
				assert.Equal(t, want, names(given))
				for _, r := range given {
					assert.NotEqual(t, "new", r.Type)
				}
			})
			keys := server.Examined().Keys - was.Keys
			t.Logf("of %d queues: %d keys of indexes, %v", len(queues), keys, sent)
			assert.Less(t, keys, int64(20*wanted))
			assert.LessOrEqual(t, len(sent), commands)
		}
	})
}

// Documents that another library wrote or saved have no kind.
func TestAClaimLeavesDocumentsWithoutAKind(t *testing.T) {
	s := newStore(t)
	d := s.open()
	insert(t, d, ofType("q", "new", "new"), ofType("q", "new 2", "new"), ofType("q", "old", "old"), ofType("q", "wrong", "old"))
	unset := func(id string, change bson.D) {
		t.Helper()
		_, err := s.jobs(true).UpdateOne(t.Context(), bson.D{{Key: "_id", Value: id}}, change)
		require.NoError(t, err)
	}
	none := bson.D{{Key: "$unset", Value: bson.D{{Key: "line.kind", Value: ""}}}}
	unset("q.new", none)
	unset("q.new 2", none)
	unset("q.old", none)
	req := request("old", 1, "q")
	req.Except = []driver.Kind{{Type: "new"}}
	assert.Equal(t, []string{"q.old"}, names(claim(t, d, req)))
	assert.Equal(t, []string{"q.wrong"}, names(claim(t, d, req)))
	assert.Empty(t, claim(t, d, req))
	assert.Equal(t, `"new"/0`, s.document("q.new")["line"].(bson.M)["kind"])
	req.Except = nil
	assert.Equal(t, []string{"q.new"}, names(claim(t, d, req)))
	assert.Nil(t, s.document("q.new")["line"])
}

// TestAClaimMergesManyKinds uses more kinds than one branch names.
func TestAClaimMergesManyKinds(t *testing.T) {
	d := newStore(t).open()
	var records []*driver.Record
	var want []string
	for i := range 130 {
		records = append(records, ofType("q", fmt.Sprint(i), fmt.Sprint("type", 1000-i)))
		want = append(want, fmt.Sprint("q.", i))
	}
	insert(t, d, append(records, ofType("q", "new", "new"))...)
	req := request("old", 200, "q")
	req.Except = []driver.Kind{{Type: "new"}}
	var got []string
	for range 20 { // each claim requests another at once
		given, err := d.Claim(t.Context(), req)
		require.NoError(t, err)
		got = append(got, names(given.Records)...)
		if given.Next.IsZero() {
			break
		}
		assert.Equal(t, req.Now, given.Next)
	}
	assert.Equal(t, want, got)
}
