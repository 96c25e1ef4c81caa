package dashboard_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/inspectortest"
	"github.com/mongodb/amboy/management"
)

// manyQueues is an inspector of 120 queues. Its cursors are positions. It fails the test if all
// queues are requested.
type manyQueues struct {
	*fake
	t *testing.T
}

func (m manyQueues) Queues(context.Context) ([]management.Queue, error) {
	assert.Fail(m.t, "all queues were listed")
	return nil, nil
}

func (m manyQueues) FindQueues(_ context.Context, filter management.QueueFilter, page management.PageRequest) (management.QueuePage, error) {
	many := make([]management.Queue, 120)
	for i := range many {
		many[i].Name = fmt.Sprintf("many-%03d", i)
	}
	return inspectortest.Page(many, filter, page)
}

func (manyQueues) SumQueues(context.Context) (management.QueueTotals, error) {
	busy := management.Queue{Name: "many-007", Counts: management.Counts{Pending: 5, Total: 5}}
	return management.QueueTotals{Queues: 120, Counts: management.Counts{Pending: 54_321}, Busiest: []management.Queue{busy}}, nil
}

var (
	linkOfQueue = regexp.MustCompile(`href="[^"]*queues/(many-\d+)"`)
	nextPage    = regexp.MustCompile(`href="([^"]*)" rel="next"`)
)

func queuesOn(body string) (names []string) {
	for _, found := range linkOfQueue.FindAllStringSubmatch(body, -1) {
		names = append(names, found[1])
	}
	return names
}

func TestPagesOfQueues(t *testing.T) {
	s := newSite(manyQueues{newFake(), t}, "")
	var sizes []int
	shown := map[string]bool{}
	for address := "queues?last=6h"; address != ""; {
		w := s.get("/" + address)
		require.Equal(t, http.StatusOK, w.Code)
		names := queuesOn(w.Body.String())
		for _, name := range names {
			shown[name] = true
		}
		sizes = append(sizes, len(names))
		address = ""
		if next := nextPage.FindStringSubmatch(w.Body.String()); next != nil {
			address = strings.ReplaceAll(strings.TrimPrefix(next[1], "./"), "&amp;", "&")
			assert.Contains(t, address, "last=6h")
		}
	}
	assert.Equal(t, []int{50, 50, 20}, sizes)
	assert.Len(t, shown, 120)
}

func TestOverviewDoesNotListAllQueues(t *testing.T) {
	body := newSite(manyQueues{newFake(), t}, "").get("/").Body.String()
	names := queuesOn(body)
	require.Len(t, names, 15)
	assert.Equal(t, "many-007", names[0])
	assert.Contains(t, body, "120 queues")
	assert.Regexp(t, `54.321`, body)
	assert.Equal(t, []string{"many-007"}, queuesOn(newSite(manyQueues{newFake(), t}, "").get("/queues?sort=pending").Body.String()))
}
