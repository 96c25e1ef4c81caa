package mongodb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// actBatch is the maximum number of records that one bulk write acts on.
const actBatch = 200

// errSkipped is the error of a change of a document whose state does not allow the
// action.
var errSkipped = errors.New("the job's state does not allow the action")

// Act implements driver.Driver. It acts on 200 records at a time, and on one such batch
// only if finding them takes long (see Find). If an error occurs after some records were
// changed, both the result and the error are returned.
func (d *Driver) Act(ctx context.Context, req driver.ActRequest) (driver.Acted, error) {
	leave, err := d.enter(ctx)
	if err != nil {
		return driver.Acted{}, err
	}
	defer leave()
	ctx = plain(ctx)
	acted := driver.Acted{Next: req.After}
	if err = d.act(ctx, req, &acted); err != nil {
		return acted, fmt.Errorf("action %q: after %d records: %w", req.Action.Kind, acted.Done, err)
	}
	return acted, nil
}

func (d *Driver) act(ctx context.Context, req driver.ActRequest, acted *driver.Acted) error {
	if err := req.Action.Validate(); err != nil {
		return err
	}
	if err := checkLimit(req.Limit); err != nil {
		return err
	}
	at, err := newPosition(req.After, false)
	if err != nil {
		return err
	}
	err = d.boundRestart(ctx, at, req)
	if err != nil {
		return err
	}
	a := &actionRun{Driver: d, Action: req.Action}
	a.selection, err = d.newSelection(ctx, req.Query, time.Now())
	if err != nil {
		return err
	}
	for acted.Done+acted.Skipped < req.Limit {
		limit := min(req.Limit-acted.Done-acted.Skipped, actBatch)
		more, err := a.actOnNext(ctx, at, limit, req.DryRun, acted)
		if err != nil || !more || at.Scans {
			return err
		}
	}
	return nil
}

// actionRun is an action in progress.
type actionRun struct {
	*Driver
	driver.Action
	*selection
	// replaced holds the attempts that a later attempt replaced.
	replaced map[*document]bool
	// targets are the jobs that the documents of a restart depend on.
	targets map[key]target
}

// actOnNext acts on the next documents and reports whether there are more.
func (a *actionRun) actOnNext(ctx context.Context, at *position, limit int, dryRun bool, acted *driver.Acted) (more bool, err error) {
	docs, more, err := a.findNext(ctx, a.selection, at, limit, withoutJob)
	if err != nil {
		return false, err
	}
	err = a.actOn(ctx, docs, dryRun, acted)
	if err != nil {
		return false, err
	}
	acted.Next = ""
	if more {
		acted.Next, err = at.cursor()
	}
	return more, err
}

// boundRestart ends a restart at the last document that exists when it begins, because
// restarted documents come again after the others.
func (d *Driver) boundRestart(ctx context.Context, at *position, req driver.ActRequest) error {
	if req.Action.Kind != driver.Restart || req.DryRun || at.begun {
		return nil
	}
	opts := options.Find().SetSort(field("order", -1)).SetLimit(1).SetProjection(field("order", 1))
	return d.each(ctx, field("order", exist(true)), opts, func(doc *document) error {
		at.End = doc.Order
		d.orders.observe(doc.Order)
		return nil
	})
}

// actOn acts on documents and adds the result to acted.
func (a *actionRun) actOn(ctx context.Context, docs []*document, dryRun bool, acted *driver.Acted) (err error) {
	if len(docs) == 0 {
		return nil
	}
	if a.Kind == driver.Restart {
		a.replaced, err = a.replacedOf(ctx, docs)
		if err != nil {
			return err
		}
	}
	if dryRun {
		return a.countAllowed(ctx, docs, acted)
	}
	switch a.Kind {
	case driver.Restart, driver.Delete:
		a.releaseDependents(ctx, docs)
	default:
		a.completeRetries(ctx, docs)
	}
	err = a.readLegacyScopes(ctx, docs)
	if err != nil {
		return err
	}
	for _, some := range a.inSteps(docs) {
		if err := a.actOnStep(ctx, some, acted); err != nil {
			return err
		}
	}
	return nil
}

// completeRetries completes the retries of which a step is left, so that actions find the next
// attempts in their places. What fails is left to the sweep, and the action skips the document.
func (a *actionRun) completeRetries(ctx context.Context, docs []*document) {
	for _, doc := range docs {
		if doc.awaitsHandover() {
			_ = a.resume(ctx, doc)
		}
	}
}

// releaseDependents releases the dependents of jobs that have just ended, so that these may be
// restarted and deleted. What fails is left to the sweep, and the action skips the document.
func (a *actionRun) releaseDependents(ctx context.Context, docs []*document) {
	unsettled := slices.DeleteFunc(slices.Clone(docs), func(doc *document) bool { return !doc.final() || !doc.Settle })
	if a.settle(ctx, unsettled) != nil {
		return
	}
	for _, doc := range unsettled {
		doc.Settle = false
	}
}

// inSteps divides the documents of a restart, so that each is restarted after those before it that
// it depends on.
func (a *actionRun) inSteps(docs []*document) [][]*document {
	if !a.links() {
		return [][]*document{docs}
	}
	var divided [][]*document
	var s steps
	for _, doc := range docs {
		if n := s.of(doc, doc.allEdges()); n == len(divided) {
			divided = append(divided, nil)
		}
		divided[s.last] = append(divided[s.last], doc)
	}
	return divided
}

// links reports whether the action makes documents wait for their edges again.
func (a *actionRun) links() bool { return a.Kind == driver.Restart && !a.IgnoreEdges }

// findTargets finds the jobs that documents to restart depend on.
func (a *actionRun) findTargets(ctx context.Context, docs []*document) (err error) {
	edges := jobSet{}
	for _, doc := range docs {
		if a.allows(doc, !a.replaced[doc]) {
			edges.add(doc.Group, doc.allEdges()...)
		}
	}
	b := &batch{Driver: a.Driver}
	a.targets, err = b.targetsOf(ctx, edges)
	return err
}

// actOnStep acts on documents together and adds the result to acted.
func (a *actionRun) actOnStep(ctx context.Context, docs []*document, acted *driver.Acted) error {
	if a.links() {
		if err := a.findTargets(ctx, docs); err != nil {
			return err
		}
	}
	changes := make([]*change, len(docs))
	for i, doc := range docs {
		changes[i] = a.change(doc)
	}
	err := a.apply(ctx, changes)
	if err != nil {
		a.sweeper.watch() // of those whose outcome is unknown, some may wait for edges
		return err
	}
	if a.links() {
		a.followEdges(ctx, awaitedBy(changes))
	}
	var removed []*document
	requested := false
	for _, c := range changes {
		switch {
		case c.err == nil:
			acted.Done++
			removed = append(removed, c.after)
			requested = requested || c.after.CancelRequested
		case errors.Is(c.err, errSkipped), errors.Is(c.err, errGone), amboy.IsDuplicateJobError(c.err):
			acted.Skipped++
		default:
			err = errors.Join(err, c.err)
		}
	}
	switch {
	case a.Kind == driver.Delete:
		err = errors.Join(err, a.remove(ctx, removed))
	case a.Kind == driver.Cancel && requested:
		err = errors.Join(err, a.announceCancels(ctx))
	}
	return err
}

// readLegacyScopes reads the bodies of documents written by the legacy library, which
// contain the scopes.
func (a *actionRun) readLegacyScopes(ctx context.Context, docs []*document) error {
	var ids bson.A
	for _, doc := range docs {
		if doc.Order == 0 {
			ids = append(ids, doc.id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	scopes := map[string][]string{}
	err := a.each(ctx, field("_id", field("$in", ids)), options.Find(), func(doc *document) error {
		scopes[doc.id] = doc.scopes
		return nil
	})
	for _, doc := range docs {
		doc.scopes = scopes[doc.id]
	}
	return err
}

// change returns the change that does the action to a document. The document may have
// been changed since it was read.
func (a *actionRun) change(read *document) *change {
	isLatest, scopes, begun := !a.replaced[read], read.scopes, false
	before := read
	if read.awaitsHandover() {
		before, begun = nil, true // it has changed since (see completeRetries)
	}
	return &change{
		queue:  read.Group,
		name:   read.Name,
		before: before,
		step: func(doc *document) error {
			doc.scopes = scopes
			if doc.isLegacy() && a.Kind != driver.Cancel {
				doc.adopt(a.orders.next(time.Now(), 1), doc.edges(), a.now)
			}
			if !a.allows(doc, isLatest) || (begun && !a.selects(doc)) {
				return errSkipped
			}
			if a.Kind == driver.Restart && doc.JobID == "" && read.JobID != "" {
				return errSkipped // it was restarted and failed meanwhile, and the next attempt replaces it
			}
			begun = true
			a.do(doc)
			return nil
		},
	}
}

// allows reports whether a document's state allows the action.
func (a *actionRun) allows(doc *document, isLatest bool) bool {
	in := doc.Line.In
	switch a.Kind {
	case driver.Cancel, driver.Prioritize:
		return !doc.final() && in != inHandover
	case driver.RunNow:
		return doc.waits() && (in == inScheduled || in == inPostponed || (in == inEdges && doc.TimeInfo.WaitUntil.After(a.now)))
	case driver.Reschedule, driver.Park:
		return doc.waits() && in != inParked && in != inHandover
	case driver.Edit:
		return doc.waits() && in != inHandover && !a.IsStale(doc.Status.ModificationCount)
	case driver.Unpark:
		return doc.waits() && in == inParked
	case driver.Restart:
		return isLatest && doc.mayBeRemoved() && !doc.succeeded()
	case driver.Delete:
		return doc.mayBeRemoved()
	default:
		return false
	}
}

// do does the action to a document whose state allows it.
func (a *actionRun) do(doc *document) {
	switch a.Kind {
	case driver.RunNow, driver.Reschedule, driver.Park, driver.Unpark, driver.Restart, driver.Edit:
		doc.Status.ModificationCount++
	}
	switch a.Kind {
	case driver.Cancel:
		doc.cancel(a.Action, a.now)
	case driver.RunNow:
		at := doc.TimeInfo.WaitUntil
		if at.After(a.now) {
			at = a.now
		}
		doc.reschedule(at, a.now)
	case driver.Reschedule:
		doc.reschedule(ceilMillisecond(a.At), a.now)
	case driver.Prioritize:
		doc.prioritize(a.Priority)
	case driver.Park:
		doc.park(a.Reason)
	case driver.Unpark:
		doc.Status.Reason = ""
		doc.Status.Interruptions = doc.Status.Interruptions.Forgiven()
		doc.enter(doc.Line.Edges, a.now)
	case driver.Restart:
		doc.restart(a.orders.next(time.Now(), 1))
		if !a.At.IsZero() {
			doc.TimeInfo.WaitUntil = ceilMillisecond(a.At)
		}
		if a.IgnoreEdges {
			doc.enter(nil, a.now)
		} else {
			doc.link(a.targets, a.now)
		}
	case driver.Delete:
		doc.ForgetAt = deleted
	case driver.Edit:
		doc.edit(a.Edit, a.now)
	}
}

// deleted is the ForgetAt of a document that is being deleted. If the process dies before
// it removes the document, Forget in any process does so.
var deleted = time.Unix(0, 0).UTC()

// mayBeRemoved reports whether the document ended for good and may be removed: it is not being
// deleted, and its dependents have been notified.
func (doc *document) mayBeRemoved() bool {
	return doc.final() && !doc.Settle && !doc.ForgetAt.Equal(deleted)
}

// countAllowed counts the documents that the action would be done to.
func (a *actionRun) countAllowed(ctx context.Context, docs []*document, acted *driver.Acted) error {
	taken := map[*document]bool{}
	if a.Kind == driver.Restart {
		var err error
		if taken, err = a.taken(ctx, docs); err != nil {
			return err
		}
	}
	for _, doc := range docs {
		doc.Settle = false // its dependents would be released first
		if a.allows(doc, !a.replaced[doc]) && !taken[doc] {
			acted.Done++
		} else {
			acted.Skipped++
		}
	}
	return nil
}

// taken returns the documents of which another document holds an enqueue scope or the
// unique key.
func (a *actionRun) taken(ctx context.Context, docs []*document) (map[*document]bool, error) {
	wanted := map[key][]*document{}
	queues, scopes, keys := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, doc := range docs {
		queues[doc.Group] = true
		for _, scope := range doc.EnqueueScopes {
			scopes[scope] = true
			wanted[key{doc.Group, "scope/" + scope}] = append(wanted[key{doc.Group, "scope/" + scope}], doc)
		}
		if doc.UniqueKey != "" {
			keys[doc.UniqueKey] = true
			wanted[key{doc.Group, "key/" + doc.UniqueKey}] = append(wanted[key{doc.Group, "key/" + doc.UniqueKey}], doc)
		}
	}
	taken := map[*document]bool{}
	if len(wanted) == 0 {
		return taken, nil
	}
	// Each alternative has an index, whose keys begin with the queue.
	holds := func(path string, things map[string]bool) bson.D {
		return a.inQueues(queues, bson.E{Key: path, Value: field("$in", keysOf(things))})
	}
	filter := either(holds("scopes", scopes), holds("unique_lock", keys))
	opts := options.Find().SetProjection(bson.D{{Key: "group", Value: 1}, {Key: "scopes", Value: 1}, {Key: "unique_lock", Value: 1}})
	err := a.each(ctx, filter, opts, func(holder *document) error {
		things := []string{"key/" + holder.UniqueLock}
		for _, scope := range holder.Scopes {
			things = append(things, "scope/"+scope)
		}
		for _, thing := range things {
			for _, doc := range wanted[key{holder.Group, thing}] {
				taken[doc] = taken[doc] || doc.id != holder.id
			}
		}
		return nil
	})
	return taken, err
}

// cancel ends a document that does not run. A running document is marked for its owner.
func (doc *document) cancel(a driver.Action, now time.Time) {
	doc.Status.Reason, doc.ForgetAt = a.Reason, a.ForgetAt
	if doc.runs() {
		doc.CancelRequested = true
		return
	}
	doc.endCanceled(now)
}

// reschedule changes the time at which a waiting document is due.
func (doc *document) reschedule(at, now time.Time) {
	doc.TimeInfo.WaitUntil = at
	doc.Line.Since = time.Time{}
	doc.Status.Reason = ""
	doc.enter(doc.Line.Edges, now)
}

func (doc *document) prioritize(priority int) {
	doc.Priority = priority
	if !doc.Line.IsZero() {
		doc.Line.Priority = priority
	}
}

func (doc *document) edit(to *driver.EditedFields, now time.Time) {
	if to.Body != nil {
		doc.Job = *to.Body
	}
	if to.Priority != nil {
		doc.prioritize(*to.Priority)
	}
	switch at := to.WaitUntil; {
	case at == nil:
	case doc.Line.In == inParked:
		doc.TimeInfo.WaitUntil = ceilMillisecond(*at)
		doc.Line.Since = time.Time{}
	default:
		doc.reschedule(ceilMillisecond(*at), now)
	}
}

// restart resets an ended document to what it was when it was inserted, except for its
// attempt errors and its count. The caller puts it in the line.
func (doc *document) restart(order int64) {
	doc.Status = amboy.JobStatusInfo{
		ModificationTime:  doc.Status.ModificationTime,
		ModificationCount: doc.Status.ModificationCount,
		Attempts:          doc.Status.Attempts,
		DroppedErrors:     doc.Status.DroppedErrors,
	}
	doc.RetryInfo.NeedsRetry = false
	doc.TimeInfo.Start, doc.TimeInfo.End, doc.TimeInfo.DispatchBy = time.Time{}, time.Time{}, time.Time{}
	doc.ForgetAt = time.Time{}
	doc.Progress, doc.Result = nil, nil
	if doc.Dependency != nil && len(doc.Dependency.Failed) > 0 {
		dependency := *doc.Dependency
		dependency.Failed = nil
		doc.Dependency = &dependency
	}
	doc.JobID = doc.jobID()
	doc.takeLegacyScopes()
	doc.Scopes = slices.Clone(doc.EnqueueScopes)
	doc.UniqueLock = doc.UniqueKey
	doc.Order = order
}
