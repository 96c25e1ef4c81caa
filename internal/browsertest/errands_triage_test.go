package browsertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/job"
)

// An operator is asked since when, and why, an order waits. At most four actions from the overview.
func TestSinceWhenAndWhyAJobIsBlocked(t *testing.T) {
	s := newService(t)
	s.putChain()
	b := newTab(t, desktop)
	h := &counted{hands: mouse{}}
	b.open(s.url)
	h.write(b, "Find a job by its ID", "parcel")
	h.submit(b)
	b.isOn("parcel")
	b.until(`document.getElementById("blocked").innerText.match(/Blocked since .* ago \(2.* UTC\)/) || document.getElementById("blocked").innerText.includes("now")`)
	h.follow(b, "approval")
	b.isOn("approval")
	b.shows("scheduled")
	t.Logf("%d actions", h.actions)
	assert.LessOrEqual(t, h.actions, 4)
}

// A tenant's backlog grows. The operator sees it in the chart of the overview and in that of the
// tenant, and pauses the tenant, in at most four actions.
func TestPauseATenantWhoseBacklogGrows(t *testing.T) {
	s := newService(t)
	printers.Load().works.Store(true)
	now := time.Now()
	for minute := 20; minute > 0; minute-- { // what a process has recorded
		ready := 20 - minute
		s.recordBacklog(now.Add(-time.Duration(minute)*time.Minute), activity.Backlog{Queue: "acme", Ready: 3},
			activity.Backlog{Queue: "globex", Ready: ready, Running: 2, Oldest: time.Duration(ready) * time.Minute})
	}
	for i := range 21 { // two of them run
		_, err := invoice.Put(t.Context(), s.queue("globex"), address{"Grace"}, job.ID(fmt.Sprint("invoice-", i)))
		require.NoError(t, err)
	}
	b := newTab(t, desktop)
	h := &counted{hands: mouse{}}
	described := func(chart, text string) {
		b.until(fmt.Sprintf(`document.getElementById("%s-desc")?.textContent.includes(%s)`, chart, quoted(text)))
	}
	b.open(s.url)
	described("backlog", "peak at "+now.Add(-time.Minute).UTC().Format("15:04")+": 22;")
	described("oldest", "peak at "+now.Add(-time.Minute).UTC().Format("15:04")+": 19 min;")
	b.until(`document.getElementById("queue-globex")?.querySelector("[data-label=Waiting]").innerText === "19"`)
	h.follow(b, "globex")
	b.isOn("globex")
	described("backlog", ": 19;")
	b.until(`document.querySelectorAll("#chart-backlog rect.bar.ready[x]").length >= 19`)
	h.press(b, "As a table")
	b.until(`[...document.querySelectorAll("#table-backlog td")].some(cell => cell.innerText === "19")`)
	h.follow(b, "Pause")
	b.find("Resume")
	assert.True(t, s.control("globex").Paused)
	t.Logf("%d actions", h.actions)
	assert.LessOrEqual(t, h.actions, 4)
}

// An operator corrects the arguments of a job before it starts.
func TestEditAJobBeforeItStarts(t *testing.T) {
	withEach(t, func(t *testing.T, h hands) {
		s := newService(t)
		s.putChain()
		b := newTab(t, desktop)
		b.open(s.url + "queues/acme/jobs/approval")
		h.follow(b, "Edit…")
		b.isOn("Edit a job")
		b.run(fill("textarea[name=args]", `{"name": "Ada"}`))
		h.follow(b, "Preview")
		b.shows(`"Ada"`)
		h.follow(b, "Change the job")
		b.isTold("The job was changed.")
		b.shows(`"Ada"`)
		j, err := s.inspector.Job(t.Context(), "acme", "approval")
		require.NoError(t, err)
		assert.JSONEq(t, `{"name":"Ada"}`, string(j.Args))
		assert.Equal(t, amboy.StateScheduled, j.State)
		assert.Equal(t, "Ada", j.Timeline[1].Actor)
	})
}
