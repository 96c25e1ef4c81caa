package dashboard_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest/internal/dashboard"
)

// lagging is an Inspector whose answers take time, and may fail.
type lagging struct {
	*fake
	find, count time.Duration
	countErr    error
	panics      bool
	// uncounted makes CountStates return no numbers.
	uncounted bool
}

func (s lagging) FindJobs(ctx context.Context, filter management.JobFilter, page management.PageRequest) (management.JobPage, error) {
	time.Sleep(s.find)
	return s.fake.FindJobs(ctx, filter, page)
}

// CountStates counts nothing in time if it is slow.
func (s lagging) CountStates(ctx context.Context, req management.StateCountRequest) ([]management.StateCount, error) {
	if s.panics {
		panic("the store is broken")
	}
	select {
	case <-time.After(s.count):
	case <-ctx.Done():
		return nil, errors.New("interrupted") // as some stores report it
	}
	if s.countErr != nil {
		return nil, s.countErr
	}
	counts, err := s.fake.CountStates(ctx, req)
	if s.uncounted {
		for i := range counts {
			counts[i].Count = management.Count{More: true}
		}
	}
	return counts, err
}

func TestPageOfJobsDoesNotWaitForASlowCount(t *testing.T) {
	for name, test := range map[string]struct {
		address         string
		count, want     time.Duration
		heading, button string
	}{
		"soon":     {"/jobs?type=a&state=scheduled", 30 * time.Millisecond, 50 * time.Millisecond, "At least 1,000 jobs found", "Preview for all matching"},
		"late":     {"/jobs?type=a", time.Minute, 150 * time.Millisecond, "Jobs found", "Preview for all matching"},
		"all jobs": {"/jobs", time.Minute, 150 * time.Millisecond, "Many jobs", "Preview for all matching"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inspector := lagging{fake: newFake(), find: 50 * time.Millisecond, count: test.count}
				s := newSite(dashboard.Share(inspector), "")
				start := time.Now()
				w := s.get(test.address)
				assert.Equal(t, test.want, time.Since(start))
				require.Equal(t, http.StatusOK, w.Code, w.Body.String())
				page := parse(t, w.Body.String())
				assert.Equal(t, test.heading, page.one(t, "h2", "id", "found").text.String())
				assert.Equal(t, test.button, page.one(t, "button", "value", "all").text.String())
			})
		})
	}
}

// A search and the counts after it have a bound together.
func TestSlowSearchLeavesLessTimeToCount(t *testing.T) {
	for _, test := range []struct{ find, want time.Duration }{
		{50 * time.Millisecond, 200 * time.Millisecond}, // counting is given up 50 ms after its time
		{120 * time.Millisecond, 220 * time.Millisecond},
		{180 * time.Millisecond, 180 * time.Millisecond},
		{250 * time.Millisecond, 250 * time.Millisecond},
	} {
		t.Run(test.find.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(lagging{fake: newFake(), find: test.find, count: time.Minute}, "")
				start := time.Now()
				w := s.get("/jobs?error=timeout&cursor=c1")
				assert.Equal(t, test.want, time.Since(start))
				require.Equal(t, http.StatusOK, w.Code, w.Body.String())
			})
		})
	}
}

// Two requests share a count that is too slow. The second has time left when the deadline of
// the first passes.
func TestWaiterOfASharedSlowCountGetsNoneEither(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(dashboard.Share(lagging{fake: newFake(), count: time.Minute}), "")
		first := make(chan int)
		go func() { first <- s.get("/jobs").Code }()
		time.Sleep(50 * time.Millisecond)
		assert.Equal(t, http.StatusOK, s.get("/jobs").Code)
		assert.Equal(t, http.StatusOK, <-first)
	})
}

func TestFailedCountIsAnError(t *testing.T) {
	s := newSite(lagging{fake: newFake(), countErr: errors.New("disk failure")}, "")
	assert.Equal(t, http.StatusInternalServerError, s.get("/jobs").Code)
}

func TestPanicOfAConcurrentReadIsPassedOn(t *testing.T) {
	defer func() { assert.Contains(t, recover(), "the store is broken") }()
	newSite(lagging{fake: newFake(), panics: true}, "").get("/jobs")
}

func TestTabsCountTheJobsInEachState(t *testing.T) {
	f := newFake()
	page := parse(t, newSite(f, "").get("/jobs?queue=billing&state=failed&limit=25&cursor=c1").Body.String())
	tabs := map[string]*element{}
	for _, a := range page.all("a") {
		if nav := a.within("nav"); nav != nil && nav.attrs["class"] == "tabs" {
			tabs[a.words()] = a
		}
	}
	require.Len(t, tabs, 1+len(amboy.JobStates()))
	all, scheduled, failed := tabs["all at least 3,319+"], tabs["◷ scheduled at least 1,000+"], tabs["✗ failed 150"]
	require.NotNil(t, all, "%v", tabs)
	require.NotNil(t, scheduled, "%v", tabs)
	require.NotNil(t, failed, "%v", tabs)
	assert.Equal(t, "./jobs?limit=25&queue=billing", all.attrs["href"], "the other filters stay, the page does not")
	assert.Equal(t, "./jobs?limit=25&queue=billing&state=scheduled", scheduled.attrs["href"])
	assert.Empty(t, scheduled.attrs["aria-current"])
	assert.Equal(t, "true", failed.attrs["aria-current"])
	assert.Equal(t, "150 jobs found", page.one(t, "h2", "id", "found").text.String())
}

func TestTabsWithoutANumberSaySo(t *testing.T) {
	page := parse(t, newSite(lagging{fake: newFake(), uncounted: true}, "").get("/jobs").Body.String())
	assert.Contains(t, page.one(t, "nav", "class", "tabs").words(), "failed ? not counted")
	assert.Equal(t, "Many jobs", page.one(t, "h2", "id", "found").text.String())
}

func TestPageOfJobsShowsTagsArgumentsAndRunTimes(t *testing.T) {
	f := newFake()
	page := parse(t, newSite(f, "").get("/jobs").Body.String())
	assert.True(t, f.pages[0].Args)
	rows := page.all("tr")
	running, retrying := "", ""
	for _, row := range rows {
		switch words := row.words(); {
		case strings.Contains(words, "running"):
			running = words
		case strings.Contains(words, "retrying"):
			retrying = words
		}
	}
	assert.Contains(t, retrying, "monthly")
	assert.Contains(t, retrying, `Arguments: {"customer":`)
	assert.Contains(t, retrying, `,"note":"net 30, thanks `, "compact")
	assert.Contains(t, retrying, "…", "cut")
	assert.Contains(t, retrying, " 2 s ", "how long it ran")
	assert.Regexp(t, `\d/5 `, retrying)
	assert.Regexp(t, `\d min|\d s`, running, "how long it has been running")
	tag := page.all("a", "class", "tag")[0]
	assert.Equal(t, "./jobs?tag=monthly", tag.attrs["href"])
}

func TestArgumentsThatAreHiddenSayWhy(t *testing.T) {
	assert.Contains(t, parse(t, newSite(hiding{newFake()}, "").get("/jobs").Body.String()).one(t, "main").words(), "Arguments: masked")
}

// hiding is an Inspector that hides the arguments of all jobs.
type hiding struct{ *fake }

func (h hiding) FindJobs(ctx context.Context, filter management.JobFilter, page management.PageRequest) (management.JobPage, error) {
	found, err := h.fake.FindJobs(ctx, filter, page)
	for i := range found.Jobs {
		found.Jobs[i].Args, found.Jobs[i].ArgsHidden = nil, "masked"
	}
	return found, err
}
