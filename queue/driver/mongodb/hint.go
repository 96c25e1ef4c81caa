package mongodb

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mongodb/grip/message"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy/internal/logging"
)

// groupedHint returns the index keys that a hint stands for in a store of many queues,
// whose indexes begin with the queue's name.
func groupedHint(hint bson.D) bson.D {
	if len(hint) == 0 || slices.ContainsFunc(hint, func(e bson.E) bool { return e.Key == "group" }) {
		return hint
	}
	return append(bson.D{{Key: "group", Value: 1}}, hint...)
}

// servesClaims reports whether an index with the keys of a hint can find candidates. With an
// index of the legacy library, which lacks their place in the line, each claim would read all
// jobs that wait.
func servesClaims(hint bson.D) bool {
	return slices.ContainsFunc(hint, func(e bson.E) bool { return e.Key == "line.in" })
}

// hintRetry is how long claims do without a hint after the server found no such index.
const hintRetry = time.Minute

// hints remembers that the index of the hint is missing.
type hints struct {
	retryAt atomic.Int64 // in nanoseconds since 1970; 0 if the index is not known to be missing
}

// use returns the hint, or nil if there is none or its index was missing lately.
func (h *hints) use(hint bson.D, now time.Time) bson.D {
	if len(hint) == 0 || now.UnixNano() < h.retryAt.Load() {
		return nil
	}
	return hint
}

// pipeHinted is pipe with a hint. If no index has its keys, it logs an error and runs the
// pipeline without the hint.
func (d *Driver) pipeHinted(ctx context.Context, pipeline bson.A, visit func(bson.Raw), hint bson.D) error {
	if hint == nil {
		return d.pipe(ctx, pipeline, visit)
	}
	err := d.pipe(ctx, pipeline, visit, options.Aggregate().SetHint(hint))
	if !isUnknownHint(err) {
		return err
	}
	d.hints.retryAt.Store(time.Now().Add(hintRetry).UnixNano())
	logging.Error(ctx, message.Fields{
		"message":    "the preferred index for claims does not exist; jobs are claimed without it",
		"database":   d.jobs.Database().Name(),
		"collection": d.jobs.Name(),
		"keys":       keyText(hint, false),
		"error":      err.Error(),
	})
	return d.pipe(ctx, pipeline, visit)
}

// isUnknownHint reports whether a query failed because no index has the keys of its
// hint.
func isUnknownHint(err error) bool {
	var failure mongo.ServerError
	return errors.As(err, &failure) && failure.HasErrorCode(codeBadValue) && strings.Contains(err.Error(), "hint")
}
