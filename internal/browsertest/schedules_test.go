package browsertest

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/management"
)

// An operator runs a schedule now, in three actions from the overview: the page of schedules, the
// button, and no more; the page of the job follows.
func TestRunAScheduleNow(t *testing.T) {
	withEach(t, func(t *testing.T, h hands) {
		s := newService(t)
		s.storeSchedules("acme", "weekly-bills")
		b := newTab(t, desktop)
		c := &counted{hands: h}
		b.open(s.url)
		c.follow(b, "Schedules")
		b.isOn("Schedules")
		c.follow(b, "Run now the schedule")
		b.isOn("weekly-bills@run-")
		b.isTold("enqueued by its schedule")
		b.shows("succeeded") // without a reload
		t.Logf("%d actions", c.actions)
		assert.LessOrEqual(t, c.actions, 3)
	})
}

// A schedule is stored, paused, resumed, changed and deleted with the pages alone.
func TestLifeOfAScheduleOnThePages(t *testing.T) {
	s := newService(t)
	s.queue("acme")
	b, h := newTab(t, desktop), &counted{hands: mouse{}}
	b.open(s.url + "schedules")
	b.shows("No schedule is stored")
	h.follow(b, "New schedule")
	b.isOn("New schedule")
	for _, field := range [][2]string{
		{"Name", "nightly"},
		{"Queue", "acme"},
		{"Cron expression", "30 2 * * *"},
		{"Time zone", "Europe/Berlin"},
		{"Job type", "step"},
	} {
		h.write(b, field[0], field[1])
	}
	h.follow(b, "Store it")
	b.isOn("nightly")
	b.isTold("stored")
	b.shows("30 2 * * * Europe/Berlin")
	h.follow(b, "Pause")
	b.isTold("paused")
	found, err := s.inspector.(management.ScheduleManager).StoredSchedule(t.Context(), "acme", "nightly")
	require.NoError(t, err)
	assert.True(t, found.Paused)
	h.follow(b, "Resume")
	b.isTold("resumed")
	h.press(b, "Change")
	h.press(b, "Cron expression")
	b.run(chromedp.Evaluate[chromedp.Void](`document.getElementById("cron").value = ""`))
	b.run(chromedp.KeyEvent("15 3 * * *"))
	h.follow(b, "Change it")
	b.isTold("changed")
	b.shows("15 3 * * * Europe/Berlin")
	h.follow(b, "Delete")
	b.isOn("Delete a schedule?")
	h.follow(b, "Delete it")
	b.isTold("deleted")
	b.shows("No schedule is stored")
}
