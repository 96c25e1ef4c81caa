package queue

import (
	"context"
	"time"

	"github.com/mongodb/amboy"
)

// inlineRetries is a BasicRetryHandler without workers: Put does the work on the caller's
// goroutine.
type inlineRetries struct{ *BasicRetryHandler }

var _ amboy.RetryHandler = (*inlineRetries)(nil)

func (h *inlineRetries) Put(_ context.Context, j amboy.Job) error {
	_, err := h.accept(j)
	if err == nil {
		h.run()
	}
	return err
}

// run does all work that is due.
func (h *inlineRetries) run() {
	if !h.Started() {
		return
	}
	for some := h.take(); len(some) > 0; some = h.take() {
		h.handleAll(h.ctx, some)
	}
}

// nextDue returns when a failed retry is tried again. It returns false if there is none.
func (h *inlineRetries) nextDue() (time.Time, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.backlog.nextDue()
}
