package mongodb_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

// outOfTime is the failure of a find of jobs that exceeds its time limit.
var outOfTime = mongotest.Failure{Commands: []string{"find"}, Collection: "work.group", Times: 1, ErrorCode: 50}

// scanned opens a driver whose finds exceed their time limit, and which scans the given
// number of documents at once.
func scanned(t *testing.T, atOnce int) (*mongodb.Driver, *mongotest.Deployment) {
	t.Helper()
	deployment := mongotest.Open(t)
	d, err := mongodb.Open(t.Context(), mongodb.Options{Client: deployment.Connect(), DB: deployment.Database(), Collection: "work", Grouped: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close(context.Background())) })
	d.ScanAtOnce(atOnce)
	return d, deployment
}

// TestPagesOfSlowQueries compares the results of scans with those of plain finds.
func TestPagesOfSlowQueries(t *testing.T) {
	const records = 20
	for _, atOnce := range []int{1, 7, records, records + 1} {
		t.Run(fmt.Sprint(atOnce), func(t *testing.T) {
			d, deployment := scanned(t, atOnce)
			for i := range records {
				insert(t, d, newRecord(t, fmt.Sprint("queue", i%3), fmt.Sprint(i), func(j *job.ShellJob) { j.SetTags([]string{fmt.Sprint(i % 5)}) }))
			}
			for _, q := range []driver.Query{{}, {ID: "*9"}, {ID: "nobody*"}, {Queues: []string{"queue1"}, ID: "?"}, {Tags: []string{"3"}}, {Latest: true}} {
				for _, page := range []driver.PageRequest{{Limit: 1}, {Limit: 3}, {Limit: 3, Newest: true}, {Limit: 100}} {
					want, err := d.Find(t.Context(), q, driver.PageRequest{Limit: records, Newest: page.Newest})
					require.NoError(t, err)
					deployment.Fail(outOfTime)
					var found []string
					pages := 0
					for more := true; more; pages++ {
						got, err := d.Find(t.Context(), q, page)
						require.NoError(t, err)
						assert.LessOrEqual(t, len(got.Records), min(page.Limit, atOnce))
						found = append(found, names(got.Records)...)
						page.After, more = got.Next, got.Next != ""
					}
					assert.Equal(t, names(want.Records), found, "%+v %+v", q, page)
					assert.LessOrEqual(t, pages, records+records/atOnce+1)
				}
				want, err := d.Count(t.Context(), q, records)
				require.NoError(t, err)
				deployment.Fail(outOfTime)
				n, err := d.Count(t.Context(), q, records)
				require.NoError(t, err)
				deployment.Heal()
				assert.Equal(t, want, n, "%+v", q)
			}
		})
	}
}

// TestScanExaminesFewDocuments reads pages without records.
func TestScanExaminesFewDocuments(t *testing.T) {
	const records, atOnce = 500, 20
	d, deployment := scanned(t, atOnce)
	var all []*driver.Record
	for i := range records {
		all = append(all, newRecord(t, "q", fmt.Sprint(i)))
	}
	insert(t, d, all...)
	q := driver.Query{Queues: []string{"q"}, ID: "nobody*"}
	deployment.Fail(outOfTime)
	var after driver.Cursor
	for i := range records / atOnce {
		deployment.Commands().Reset()
		page, err := d.Find(t.Context(), q, driver.PageRequest{Limit: 10, After: after})
		require.NoError(t, err)
		assert.Empty(t, page.Records)
		require.NotEmpty(t, page.Next, "after %d pages", i)
		assert.Equal(t, 2, deployment.Commands().Named("aggregate"))
		after = page.Next
	}
	page, err := d.Find(t.Context(), q, driver.PageRequest{Limit: 10, After: after})
	require.NoError(t, err)
	assert.Equal(t, driver.Page{}, page)
}

// TestActOnSlowQueries checks that each call acts on a part of the records.
func TestActOnSlowQueries(t *testing.T) {
	const records, atOnce = 30, 7
	d, deployment := scanned(t, atOnce)
	for i := range records {
		insert(t, d, newRecord(t, "q", fmt.Sprint(i)))
	}
	deployment.Fail(outOfTime)
	req := driver.ActRequest{Query: driver.Query{ID: "*5"}, Action: driver.Action{Kind: driver.Cancel}, Limit: 100}
	var done []int
	for more := true; more; {
		acted, err := d.Act(t.Context(), req)
		require.NoError(t, err)
		done = append(done, acted.Done)
		req.After, more = acted.Next, acted.Next != ""
	}
	assert.Equal(t, []int{1, 0, 1, 1, 0}, done)
}
