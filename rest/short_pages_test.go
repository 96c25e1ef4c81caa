package rest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
	"github.com/mongodb/amboy/rest"
)

// A store ends a page early after it has read many jobs of all tenants. The pages of a tenant
// must not depend on that.
func TestAttackATenantCountsTheJobsOfOthers(t *testing.T) {
	store, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "jobs.db")})
	require.NoError(t, err)
	group, err := queue.NewDriverGroup(context.Background(), queue.DriverGroupOptions{
		DefaultQueue: queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1},
	})
	require.NoError(t, err)
	defer func() { assert.NoError(t, group.Close(context.Background())) }()
	inspector, err := management.NewGroupInspector(group)
	require.NoError(t, err)
	put := func(name string, from, to int) {
		records := make([]*driver.Record, 0, to-from)
		for n := range to - from {
			id := fmt.Sprint(from + n)
			records = append(records, &driver.Record{
				Name: driver.RecordName(name, id, amboy.JobRetryInfo{}), Group: name, Type: "resize",
				TimeInfo: amboy.JobTimeInfo{WaitUntil: time.Now().Add(time.Hour)},
			})
		}
		refused, insertErr := store.Insert(t.Context(), records)
		require.NoError(t, insertErr)
		for _, failure := range refused {
			require.NoError(t, failure)
		}
	}
	handler := rest.Handler(inspector, everybody(), rest.Tenant("mine"))
	put("mine", 0, 2)
	put("theirs", 0, 21_000)
	put("mine", 2, 4)
	for _, order := range []string{"", "&newest=true"} {
		got := sample{target: "/v2/jobs?states=scheduled&limit=3" + order}.ask(t, handler, http.MethodGet, "", nil)
		require.Equal(t, http.StatusOK, got.status, got.body)
		var page management.JobPage
		require.NoError(t, json.Unmarshal([]byte(got.body), &page))
		assert.Len(t, page.Jobs, 3)
		got = sample{target: "/v2/jobs?states=scheduled&limit=3&cursor=" + page.Next + order}.ask(t, handler, http.MethodGet, "", nil)
		require.Equal(t, http.StatusOK, got.status, got.body)
		page = management.JobPage{}
		require.NoError(t, json.Unmarshal([]byte(got.body), &page))
		assert.Len(t, page.Jobs, 1)
		assert.Empty(t, page.Next)
	}
}
