package browsertest

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
)

// shows waits until the page shows a text.
func (b tab) shows(text string) {
	b.t.Helper()
	b.until(fmt.Sprintf(`document.getElementById("main").innerText.includes(%s)`, quoted(text)))
}

// isOn waits until the page has a heading.
func (b tab) isOn(heading string) {
	b.t.Helper()
	b.until(fmt.Sprintf(`document.querySelector("h1")?.innerText.startsWith(%s)`, quoted(heading)))
}

// isTold waits until the notice at the top of the page contains a text.
func (b tab) isTold(text string) {
	b.t.Helper()
	b.until(fmt.Sprintf(`document.getElementById("notice")?.innerText.includes(%s)`, quoted(text)))
}

// showsNumber waits until the number card with a label shows a number.
func (b tab) showsNumber(label string, n int) {
	b.t.Helper()
	b.until(fmt.Sprintf(`[...document.querySelectorAll(".numbers li")].some(i =>
		i.querySelector(".label").innerText.toLowerCase() === %s.toLowerCase() && i.querySelector("strong").innerText === "%d")`, quoted(label), n))
}

// An operator is called because invoices fail, finds the cause, has the printer repaired,
// retries all failed invoices, and watches them succeed.
func TestRetryAllFailedJobs(t *testing.T) {
	withEach(t, func(t *testing.T, h hands) {
		s := newService(t)
		s.failInvoices("acme", 5)
		b := newTab(t, desktop)

		b.open(s.url)
		h.follow(b, "Failed jobs of type invoice in acme")
		b.isOn("Jobs")
		b.shows("5 jobs found")
		h.follow(b, "invoice-3")
		b.isOn("invoice-3")
		b.shows(errJam.Error())
		h.press(b, "Stack")
		b.shows("printInvoice")

		printers.Load().works.Store(true)
		h.follow(b, "invoice") // the link of its type
		b.isOn("Jobs")
		h.follow(b, "failed") // the tab
		b.shows("5 jobs found")
		h.choose(b, "Action", "Retry now")
		h.follow(b, "Preview for all 5")
		b.shows("Retry now would change 5 jobs")
		assert.Equal(t, 5, s.queue("acme").Stats(t.Context()).Completed, "a preview must not change anything")
		h.follow(b, "Retry now: 5 jobs")
		b.isTold("5")

		h.follow(b, "Overview")
		b.isOn("Overview")
		b.showsNumber("Running", 2) // the number of workers
		b.showsNumber("Waiting", 3)
		for range 5 {
			printers.Load().paper <- struct{}{}
		}
		b.showsNumber("Running", 0) // without a reload
		b.showsNumber("Waiting", 0)
		require.True(t, amboy.Wait(t.Context(), s.queue("acme")))
	})
}

func TestPauseAndResumeATenant(t *testing.T) {
	withEach(t, func(t *testing.T, h hands) {
		s := newBusyService(t)
		b := newTab(t, desktop)
		b.open(s.url)
		h.follow(b, "Queues")
		b.isOn("Queues")
		h.follow(b, "globex")
		b.isOn("globex")
		h.follow(b, "Pause")
		b.find("Resume")
		b.shows("paused")
		assert.True(t, s.control("globex").Paused)
		assert.False(t, s.control("acme").Paused)
		h.follow(b, "Resume")
		b.find("Pause")
		assert.False(t, s.control("globex").Paused)
	})
}

func TestDrainAQueue(t *testing.T) {
	withEach(t, func(t *testing.T, h hands) {
		s := newBusyService(t)
		b := newTab(t, desktop)
		b.open(s.url)
		h.follow(b, "globex")
		b.isOn("globex")
		h.follow(b, "Drain")
		b.find("Accept new jobs")
		b.shows("draining")
		_, err := step.Put(t.Context(), s.queue("globex"), address{})
		require.ErrorIs(t, err, amboy.ErrQueueDraining)
		h.follow(b, "Accept new jobs")
		b.find("Drain")
		_, err = step.Put(t.Context(), s.queue("globex"), address{})
		require.NoError(t, err)
	})
}

// An operator has the ID of a job from a log, and neither its queue nor its state.
func TestFindAJobByItsID(t *testing.T) {
	s := newBusyService(t)
	b := newTab(t, desktop)
	b.open(s.url + "audit")
	mouse{}.press(b, "Find a job by its ID")
	b.run(chromedp.KeyEvent("bill-1"))
	b.load(chromedp.KeyEvent(kb.Enter))
	b.isOn("bill-1")
	b.shows("globex")
}

// An order waits. The operator follows the dependencies to the job that blocks it, and runs
// that job now.
func TestGraphLeadsToTheJobThatBlocks(t *testing.T) {
	withEach(t, func(t *testing.T, h hands) {
		s := newService(t)
		s.putChain()
		b := newTab(t, desktop)
		b.open(s.url)
		h.follow(b, "Jobs")
		b.isOn("Jobs")
		h.follow(b, "blocked")
		b.shows("2 jobs found")
		h.follow(b, "order")
		b.isOn("order")
		b.shows("blocked")
		h.follow(b, "approval (step) in acme")
		b.isOn("approval")
		b.shows("scheduled")
		h.follow(b, "Retry")
		b.shows("succeeded") // without a reload
		h.follow(b, "order (step) in acme")
		b.isOn("order")
		b.shows("succeeded")
	})
}
