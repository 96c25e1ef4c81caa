package browsertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
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

// A tenant's backlog grows. The operator sees it on the overview, and pauses the tenant, in at most
// four actions.
func TestPauseATenantWhoseBacklogGrows(t *testing.T) {
	s := newService(t)
	printers.Load().works.Store(true)
	b := newTab(t, desktop)
	h := &counted{hands: mouse{}}
	backlog := func(n int) {
		b.until(fmt.Sprintf(`document.getElementById("queue-globex")?.querySelector("[data-label=Pending]").innerText === "%d"`, n))
	}
	put := func(from, to int) {
		for i := from; i < to; i++ {
			_, err := step.Put(t.Context(), s.queue("globex"), address{"Grace"}, job.ID(fmt.Sprint("step-", i)), job.In(time.Hour))
			require.NoError(t, err)
		}
	}
	put(0, 3)
	b.open(s.url)
	backlog(3)
	put(3, 8)
	backlog(8) // without a reload
	h.follow(b, "globex")
	b.isOn("globex")
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
