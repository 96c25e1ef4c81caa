package management

import (
	"context"
	"errors"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/publictext"
)

// internalError is all that is told of what a store says, which may name hosts and users.
const internalError = "the service could not do it; its log says why"

// publicText is what the audit list tells of an error. wasRefused is true if it says
// that nothing was done, and why.
func publicText(err error) (text string, wasRefused bool) {
	text, known := publictext.Of(err, publictext.As[*InvalidArgumentError], publictext.As[*StateError], publictext.Is(ErrUnknownQueue, ErrUnsupported))
	switch {
	case known:
		// A queue that is closed may have been so half-way.
		return text, !errors.Is(err, amboy.ErrQueueClosed) && !errors.Is(err, amboy.ErrGroupClosed)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "the request ended before it was done", false
	default:
		return internalError, false
	}
}
