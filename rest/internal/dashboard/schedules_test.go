package dashboard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/management"
)

func TestFormsOfSchedules(t *testing.T) {
	f := newFake()
	s := newSite(f, "/ops")
	w := s.post("/schedules", url.Values{
		"queue": {"mail"}, "name": {"new"}, "every": {"90m"}, "cron": {""}, "zone": {""}, "type": {"send"}, "outside": {"true"},
		"args": {` {"to":"ada"} `}, "priority": {"3"}, "catch_up": {"all"}, "max_catch_up": {"7"},
	})
	assert.Equal(t, "/queues/mail/schedules/new?did=schedule-created&done=1&skipped=0", lands(t, s, "/schedules", w))
	assert.Equal(t, management.ScheduleSpec{
		Every: management.Duration(90 * time.Minute), CatchUp: "all", MaxCatchUp: 7, ScheduledJob: management.ScheduledJob{
			Type: "send", Args: json.RawMessage(`{"to":"ada"}`), Priority: 3, JobOptions: management.JobOptions{Outside: true},
		},
	}, f.spec)

	const one = "/queues/mail/schedules/reminder"
	for do, landed := range map[string]string{
		"trigger": "/queues/mail/jobs/reminder@run?did=schedule-triggered&done=1&skipped=0",
		"pause":   one + "?did=schedule-paused&done=1&skipped=0",
		"resume":  one + "?did=schedule-resumed&done=1&skipped=0",
	} {
		assert.Equal(t, landed, lands(t, s, one, s.post(one, url.Values{"do": {do}})))
	}
	// Arguments may be hidden from the operator, so an empty field keeps them.
	assert.Equal(t, one+"?did=schedule-changed&done=1&skipped=0", lands(t, s, one, s.post(one, url.Values{"do": {"change"}, "cron": {"@daily"}, "type": {"remind"}, "args": {""}, "revision": {"17"}})))
	assert.Equal(t, "@daily", f.spec.Cron)
	assert.Equal(t, "17", f.revision, "the page may be old")
	assert.Contains(t, s.get(one).Body.String(), `name="revision" value="4711"`)
	assert.Nil(t, f.spec.Args)

	asked := s.post(one, url.Values{"do": {"delete"}})
	require.Equal(t, http.StatusOK, asked.Code)
	assert.Contains(t, asked.Body.String(), "Delete a schedule?")
	checkPage(t, s, one, asked)
	assert.Equal(t, "/schedules?did=schedule-deleted&done=1&skipped=0", lands(t, s, one, s.post(one, url.Values{"do": {"delete"}, "confirmed": {"yes"}})))
	assert.Contains(t, s.get("/schedules?did=schedule-deleted&done=1&skipped=0&told="+s.told).Body.String(), "The schedule was deleted.")

	for _, form := range []url.Values{
		{"do": {"explode"}},
		{"do": {"change"}, "every": {"often"}},
		{"do": {"change"}, "priority": {"high"}},
		{"do": {"change"}, "outside": {"maybe"}},
		{"do": {"pause"}, "unknown": {"1"}},
	} {
		assert.Equal(t, http.StatusBadRequest, s.post(one, form).Code, form)
	}
}

// unmatched is a service with so many schedules that none of the first page matches a filter.
type unmatched struct{ *fake }

func (unmatched) StoredSchedules(context.Context, management.ScheduleFilter, management.PageRequest) (management.StoredSchedulePage, error) {
	return management.StoredSchedulePage{Next: "c2"}, nil
}

// The page said that no schedule matched, and had no link to the pages with schedules that did match.
func TestAnEmptyPageOfSchedulesLeadsToTheNext(t *testing.T) {
	page := newSite(unmatched{newFake()}, "").get("/schedules?name=nightly").Body.String()
	assert.Contains(t, page, "No stored schedule of this page matches.")
	assert.Contains(t, page, `<a href="./schedules?cursor=c2&amp;name=nightly" rel="next">Next page</a>`)
}

func TestErrorPagesOfSchedules(t *testing.T) {
	for status, err := range map[int]error{
		http.StatusNotFound: fmt.Errorf("schedule %q: %w", "a", management.ErrUnknownSchedule),
		http.StatusConflict: fmt.Errorf("schedule %q: %w", "a", management.ErrScheduleExists),
	} {
		s := newSite(&fake{err: err}, "")
		w := s.post("/schedules", url.Values{"queue": {"a"}, "name": {"b"}})
		assert.Equal(t, status, w.Code)
		checkPage(t, s, "/schedules", w)
		w = s.get("/queues/a/schedules/b")
		assert.Equal(t, status, w.Code)
		checkPage(t, s, "/queues/a/schedules/b", w)
	}
}
