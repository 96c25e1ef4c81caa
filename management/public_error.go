package management

import (
	"context"
	"errors"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/publictext"
)

// internalError replaces the errors of a store, which may name hosts and users.
const internalError = "internal error; the log of the service has the details"

// publicText returns the text of an error for the audit list. wasRefused is true if the
// error means that nothing was done.
func publicText(err error) (text string, wasRefused bool) {
	text, known := publictext.Of(err, publictext.As[*InvalidArgumentError], publictext.As[*StateError], publictext.Is(ErrUnknownQueue, ErrUnsupported, ErrUnknownSchedule, ErrScheduleExists, ErrScheduleChanged))
	switch {
	case known:
		// A queue may have been closed while the action was performed.
		return text, !errors.Is(err, amboy.ErrQueueClosed) && !errors.Is(err, amboy.ErrGroupClosed)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "the request ended before it completed", false
	default:
		return internalError, false
	}
}
