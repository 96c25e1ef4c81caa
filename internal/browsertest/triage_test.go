package browsertest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
)

// parse fails, until it is repaired, with one of two errors.
var parse = job.Define("parse", 1, func(_ context.Context, file parsed) error {
	switch {
	case printers.Load().works.Load():
		return nil
	case file.Nil:
		return fmt.Errorf("file %d: invalid memory address or nil pointer dereference", file.Number)
	default:
		return errors.New("the disk is full")
	}
})

type parsed struct {
	Number int  `bson:"number" json:"number"`
	Nil    bool `bson:"nil" json:"nil"`
}

// counted counts what an operator does.
type counted struct {
	hands
	actions int
}

func (c *counted) follow(b tab, name string) { b.t.Helper(); c.actions++; c.hands.follow(b, name) }

// write moves to a field and writes a text in it, which is one action.
func (c *counted) write(b tab, name, text string) {
	b.t.Helper()
	c.actions++
	c.press(b, name)
	b.run(chromedp.KeyEvent(text))
}

// submit sends the form of the focused field.
func (c *counted) submit(b tab) {
	b.t.Helper()
	c.actions++
	b.load(chromedp.KeyEvent(kb.Enter))
}

// fill writes a text in a field.
func fill(selector, text string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](fmt.Sprintf("document.querySelector(%s).value = %s", quoted(selector), quoted(text)))
}

// An operator finds all jobs that failed with "nil pointer" among 100,000, and retries them, in at
// most six actions from the overview.
func TestRetryAllThatFailedWithAnError(t *testing.T) {
	const all, failing = 100_000, 300
	s := newServiceKeeping(t, all)
	printers.Load().works.Store(true)
	s.parse(t, all-2*failing, 0, false)
	printers.Load().works.Store(false)
	s.parse(t, failing, all, true)
	s.parse(t, failing, 2*all, false)
	printers.Load().works.Store(true)

	b := newTab(t, desktop)
	h := &counted{hands: mouse{}}
	b.open(s.url)
	h.follow(b, "Errors")
	b.isOn("Errors")
	h.write(b, "Error contains", "nil pointer")
	h.follow(b, "Show errors")
	b.shows("file #: invalid memory address or nil pointer dereference")
	b.shows(fmt.Sprint(failing))
	h.follow(b, "Retry all with the error")
	b.shows(fmt.Sprintf("Retry now would change %d jobs", failing))
	h.follow(b, fmt.Sprintf("Retry now: %d jobs", failing))
	b.isTold(fmt.Sprint(failing))
	t.Logf("%d actions", h.actions)
	assert.LessOrEqual(t, h.actions, 6)

	require.True(t, amboy.Wait(t.Context(), s.queue("acme")))
	count, err := s.inspector.CountJobs(t.Context(), management.JobFilter{States: []amboy.JobState{amboy.StateFailed}}, all)
	require.NoError(t, err)
	assert.Equal(t, failing, count.Count, "the jobs that failed with another error are left alone")
}

// parse puts and runs jobs, with numbers from first on.
func (s *service) parse(t *testing.T, n, first int, isNil bool) {
	t.Helper()
	q := s.queue("acme")
	jobs := make([]amboy.Job, 0, n)
	for i := range n {
		j, err := parse.New(parsed{first + i, isNil})
		require.NoError(t, err)
		jobs = append(jobs, j)
	}
	require.NoError(t, q.PutMany(t.Context(), jobs))
	require.True(t, amboy.Wait(t.Context(), q))
}
