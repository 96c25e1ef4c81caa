package mongodb

import (
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/nameset"
)

// inExpired is the place of a document that was claimed because it expired while it
// waited for edges. It waits for them again if it is handed back.
const inExpired place = "expired"

// start gives the lease of a document to an owner, and the scopes that it wants, with slots of
// limited ones. An expired document takes no scopes.
func (doc *document) start(req driver.ClaimRequest, expired bool, slots map[string]string) {
	doc.Status.Owner = req.Owner
	doc.Status.InProgress = true
	doc.Status.ModificationTime = stored(req.Now)
	doc.Status.ModificationCount++
	doc.Status.Reason = ""
	doc.TimeInfo.Start = stored(req.Now)
	doc.LeaseUntil = stored(req.Now.Add(req.LeaseTime))
	if doc.UniqueUntil == amboy.UniqueUntilStarted {
		doc.UniqueLock = ""
	}
	edges := doc.Line.Edges
	doc.Line = line{}
	if len(edges) > 0 {
		doc.Line = doc.newLine()
		doc.Line.In, doc.Line.Edges, doc.Line.Expires = inExpired, edges, time.Time{}
	}
	if !expired {
		doc.takeScopes(slots)
	}
}

// stored returns a time as it is stored.
func stored(t time.Time) time.Time { return t.Truncate(time.Millisecond).UTC() }

// hasExpired reports whether the dispatch-by time of a document has passed. At that time
// the document may still start.
func (doc *document) hasExpired(now time.Time) bool {
	return !doc.Line.Expires.IsZero() && doc.Line.Expires.Before(stored(now))
}

// end replaces the record of a document by an ended one, except for the fields that a
// completion must not change.
func (doc *document) end(ended *driver.Record) {
	was := doc.Record
	doc.Record = *ended
	doc.Name, doc.Group = was.Name, was.Group
	doc.Priority, doc.Tags, doc.Dependency = was.Priority, was.Tags, was.Dependency
	doc.RequiredScopes = was.RequiredScopes
	doc.EnqueueScopes, doc.EnqueueAllScopes = was.EnqueueScopes, was.EnqueueAllScopes
	doc.UniqueKey, doc.UniqueUntil = was.UniqueKey, was.UniqueUntil
	doc.Scopes = was.Scopes
	if was.CancelRequested {
		driver.EndCanceled(&doc.Record, was.Status.Reason, was.ForgetAt)
	}
	if doc.Progress == nil {
		doc.Progress = was.Progress
	}
	doc.finish()
}

// endCanceled ends a document for which Cancel was requested. The document already has
// the reason and ForgetAt.
func (doc *document) endCanceled(now time.Time) {
	doc.Status.Outcome = amboy.OutcomeCanceled
	doc.Status.ModificationCount++
	doc.RetryInfo.NeedsRetry = false
	doc.TimeInfo.End = stored(now)
	doc.finish()
}

// finish clears the fields that only unfinished documents have.
func (doc *document) finish() {
	doc.Status.Completed, doc.Status.InProgress, doc.Status.Hold = true, false, ""
	doc.CancelRequested = false
	doc.Line, doc.LeaseUntil = line{}, time.Time{}
	if doc.retries() {
		doc.Scopes = doc.enqueued()
		return
	}
	doc.Scopes = nil
	doc.Settle = doc.Dependents
	if !doc.keepsKey() {
		doc.UniqueLock = ""
	}
}

// enqueued returns the scopes that the document took when it was put.
func (doc *document) enqueued() []string {
	var held []string
	for _, scope := range doc.Scopes {
		if slices.Contains(doc.EnqueueScopes, scope) {
			held = append(held, scope)
		}
	}
	return held
}

// keepsKey reports whether a document that ended for good keeps its unique key.
func (doc *document) keepsKey() bool {
	switch doc.UniqueUntil {
	case amboy.UniqueUntilForgotten:
		return true
	case amboy.UniqueUntilFailed:
		return doc.succeeded()
	default:
		return false
	}
}

// succeeded reports whether the document ended with success.
func (doc *document) succeeded() bool {
	return driver.StateOf(&doc.Record, time.Time{}) == amboy.StateSucceeded
}

// handBack makes a running document wait or become ready. If Cancel was requested, the
// document ends.
func (doc *document) handBack(h driver.HandBack, now time.Time) {
	if doc.CancelRequested {
		doc.endCanceled(now)
		return
	}
	if h.Started {
		doc.TimeInfo.DispatchBy = time.Time{}
	}
	doc.Status.Owner, doc.Status.InProgress, doc.Status.Reason = "", false, ""
	doc.TimeInfo.Start, doc.LeaseUntil = time.Time{}, time.Time{}
	doc.Scopes = doc.enqueued()
	if doc.Order == 0 {
		doc.Line = line{} // a legacy document, which must be adopted
		return
	}
	edges := doc.Line.Edges
	doc.Line = doc.newLine()
	doc.Line.Edges = edges
	if doc.RetryInfo.CurrentAttempt > 0 && doc.TimeInfo.WaitUntil.After(now) {
		// Its owner's clock is ahead, and so may be the clock that set its times. They must
		// be moved if it waits for them once more.
		doc.Line.Since = ceilMillisecond(doc.TimeInfo.Created)
	}
	until := ceilMillisecond(h.NotBefore)
	switch {
	case h.Park:
		doc.park(h.Reason)
	case len(edges) > 0: // it expired before its dependencies ended
		doc.Line.In = inEdges
	case until.After(now):
		doc.Line.In, doc.Line.Due, doc.Line.Since = inPostponed, until, ceilMillisecond(h.Since)
		doc.Status.Reason = h.Reason
	default:
		doc.Line.In = inReady
	}
}

// endEdges removes the edges to ended jobs from a document.
func (doc *document) endEdges(succeeded map[string]bool, now time.Time) {
	var open, failed []string
	for _, edge := range doc.Line.Edges {
		success, hasEnded := succeeded[edge]
		switch {
		case !hasEnded:
			open = append(open, edge)
		case !success:
			failed = append(failed, edge)
		}
	}
	doc.fail(failed)
	switch doc.Line.In {
	case inEdges:
		doc.enter(open, now)
	case inExpired:
		if len(open) == 0 {
			doc.Line = line{}
			return
		}
		doc.Line.Edges = open
	default:
		doc.Line.Edges = open
	}
}

// fail records edges to jobs that ended without success.
func (doc *document) fail(edges []string) {
	if len(edges) == 0 || doc.Dependency == nil {
		return
	}
	dependency := *doc.Dependency
	dependency.Failed = append(slices.Clone(dependency.Failed), nameset.Without(edges, dependency.Failed)...)
	doc.Dependency = &dependency
}

// isLegacy reports whether the document waits to run and was last written by the legacy
// library.
func (doc *document) isLegacy() bool { return doc.waits() && doc.Line.IsZero() }

// takeLegacyScopes copies the scopes in the body to the fields, because the legacy
// library does not set these fields.
func (doc *document) takeLegacyScopes() {
	if len(doc.RequiredScopes) == 0 {
		doc.RequiredScopes = doc.scopes
	}
}

// adopt adds this library's fields to a legacy document. The document gets a new order,
// unless it has one.
func (doc *document) adopt(order int64, openEdges []string, now time.Time) {
	if doc.Order == 0 {
		doc.Order = order
	}
	doc.JobID = doc.jobID()
	doc.takeLegacyScopes()
	doc.enter(openEdges, now)
}
