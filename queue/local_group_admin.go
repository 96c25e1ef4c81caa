package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/engine"
	"github.com/mongodb/amboy/queue/internal/local"
)

// groupAdmin is the driver.Admin of a local group, the view for management. It covers the
// open queues of the group, under the names they have in the group. Queues of other
// packages are left out. Records are ordered by the name of their queue, and then as in
// that queue.
type groupAdmin struct{ group *localGroup }

func (g *localGroup) admin() driver.Admin { return groupAdmin{g} }

// isGone reports whether err comes from a queue that was closed meanwhile, and so left
// the group.
func isGone(err error) bool { return errors.Is(err, driver.ErrClosed) }

// member is a queue of a group.
type member struct {
	admin driver.Admin
	name  string // in the group
	inner string // its name in admin
}

// adminOfQueue returns the driver.Admin of a queue, and the queue's name in it. ok is
// false for a queue of another package.
func adminOfQueue(q amboy.Queue) (admin driver.Admin, name string, ok bool) {
	switch q := q.(type) {
	case *local.Queue:
		return q.Admin(), q.ID(), true
	case *engine.Queue:
		return q.Driver, q.Name, true
	case *Inline:
		return q.inner.Driver, q.inner.Name, true
	default:
		return nil, "", false
	}
}

// member returns the open queue with that name.
func (a groupAdmin) member(name string) (member, bool) {
	admin, inner, ok := adminOfQueue(a.group.OpenQueues()[name])
	return member{admin, name, inner}, ok
}

// members returns the open queues that a query may select from, sorted by name. Empty
// queues means all.
func (a groupAdmin) members(queues []string) []member {
	open := a.group.OpenQueues()
	names := slices.Sorted(maps.Keys(open))
	if len(queues) > 0 {
		names = slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(queues, name) })
	}
	var members []member
	for _, name := range names {
		if admin, inner, ok := adminOfQueue(open[name]); ok {
			members = append(members, member{admin, name, inner})
		}
	}
	return members
}

// rename replaces the queue's inner name in records by its name in the group.
func (m member) rename(records ...*driver.Record) {
	for _, r := range records {
		id := r.JobID()
		r.Group = m.name
		r.Name = driver.RecordName(m.name, id, r.RetryInfo)
	}
}

// query restricts q to this queue.
func (m member) query(q driver.Query) driver.Query {
	q.Queues = []string{m.inner}
	return q
}

// Get implements driver.Admin.
func (a groupAdmin) Get(ctx context.Context, queue, id string) (*driver.Record, error) {
	m, ok := a.member(queue)
	if !ok {
		return nil, amboy.NewJobNotFoundErrorf("there is no job %q in queue %q, which is not open", id, queue)
	}
	r, err := m.admin.Get(ctx, m.inner, id)
	if err != nil {
		return nil, err
	}
	m.rename(r)
	return r, nil
}

// Attempts implements driver.Admin.
func (a groupAdmin) Attempts(ctx context.Context, queue, id string) ([]*driver.Record, error) {
	m, ok := a.member(queue)
	if !ok {
		return nil, nil
	}
	attempts, err := m.admin.Attempts(ctx, m.inner, id)
	m.rename(attempts...)
	return attempts, err
}

// groupCursor is a position in the order of the records of a group.
type groupCursor struct {
	queue string
	after driver.Cursor // in the queue
}

// encode returns the cursor's text. The escaped name contains no space.
func (c groupCursor) encode() driver.Cursor {
	return driver.Cursor(url.QueryEscape(c.queue)+" ") + c.after
}

func decodeGroupCursor(cursor driver.Cursor) (c groupCursor, err error) {
	name, after, ok := strings.Cut(string(cursor), " ")
	if ok {
		c.queue, err = url.QueryUnescape(name)
	}
	if !ok || err != nil {
		return c, fmt.Errorf("invalid cursor: After must be the Next of an earlier call (is %q): %w", cursor, driver.ErrBadCursor)
	}
	c.after = driver.Cursor(after)
	return c, nil
}

// pages calls visit for each queue that a query may select from, starting at a cursor.
// visit gets the position in the queue and the number of records left; it returns how
// many records it took, and where the queue continues. pages returns where the next call
// continues.
func (a groupAdmin) pages(q driver.Query, after driver.Cursor, newest bool, limit int, visit func(m member, after driver.Cursor, limit int) (took int, next driver.Cursor, err error)) (next driver.Cursor, err error) {
	if limit < 1 {
		return "", fmt.Errorf("invalid limit: it must be at least 1 (is %d)", limit)
	}
	members := a.members(q.Queues)
	if newest {
		slices.Reverse(members)
	}
	var from groupCursor
	if after != "" {
		from, err = decodeGroupCursor(after)
		if err != nil {
			return "", err
		}
	}
	for _, m := range members {
		place := driver.Cursor("")
		switch {
		case after == "":
		case m.name == from.queue:
			place = from.after
		case (m.name < from.queue) != newest:
			continue // an earlier call finished this queue
		}
		if limit == 0 {
			return groupCursor{queue: m.name}.encode(), nil
		}
		took, goesOn, err := visit(m, place, limit)
		if isGone(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		limit -= took
		if goesOn != "" {
			return groupCursor{m.name, goesOn}.encode(), nil
		}
	}
	return "", nil
}

// Find implements driver.Admin.
func (a groupAdmin) Find(ctx context.Context, q driver.Query, request driver.PageRequest) (driver.Page, error) {
	var page driver.Page
	next, err := a.pages(q, request.After, request.Newest, request.Limit, func(m member, after driver.Cursor, limit int) (int, driver.Cursor, error) {
		of := request
		of.After, of.Limit = after, limit
		part, err := m.admin.Find(ctx, m.query(q), of)
		if err != nil {
			return 0, "", fmt.Errorf("queue %q: %w", m.name, err)
		}
		m.rename(part.Records...)
		page.Records = append(page.Records, part.Records...)
		return len(part.Records), part.Next, nil
	})
	if err != nil {
		return driver.Page{}, err
	}
	page.Next = next
	return page, nil
}

// Count implements driver.Admin.
func (a groupAdmin) Count(ctx context.Context, q driver.Query, limit int) (int, error) {
	count := 0
	_, err := a.pages(q, "", false, limit, func(m member, _ driver.Cursor, limit int) (int, driver.Cursor, error) {
		n, err := m.admin.Count(ctx, m.query(q), limit)
		if isGone(err) {
			return 0, "", err
		}
		count += n
		if err != nil {
			return 0, "", fmt.Errorf("queue %q: %w", m.name, err)
		}
		return n, "", nil
	})
	return count, err
}

// Act implements driver.Admin. If it fails in one of the queues, it returns what was done
// until then and the error.
func (a groupAdmin) Act(ctx context.Context, req driver.ActRequest) (driver.Acted, error) {
	if err := req.Action.Validate(); err != nil {
		return driver.Acted{}, err
	}
	var acted driver.Acted
	next, err := a.pages(req.Query, req.After, false, req.Limit, func(m member, after driver.Cursor, limit int) (int, driver.Cursor, error) {
		part := req
		part.Query, part.After, part.Limit = m.query(req.Query), after, limit
		done, err := m.admin.Act(ctx, part)
		acted.Done += done.Done
		acted.Skipped += done.Skipped
		if err != nil {
			return 0, "", fmt.Errorf("queue %q: %w", m.name, err)
		}
		return done.Done + done.Skipped, done.Next, nil
	})
	acted.Next = next
	return acted, err
}

// Stats implements driver.Admin.
func (a groupAdmin) Stats(ctx context.Context, queue string) (amboy.QueueStats, error) {
	m, ok := a.member(queue)
	if !ok {
		return amboy.QueueStats{}, nil
	}
	return m.admin.Stats(ctx, m.inner)
}

// Queues implements driver.Admin. Its cost depends on the number of open queues too, whose names
// it sorts.
func (a groupAdmin) Queues(ctx context.Context, req driver.QueueRequest) ([]driver.QueueInfo, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	var infos []driver.QueueInfo
	for _, m := range a.members(nil) {
		if m.name < req.From {
			continue
		}
		info, err := m.info(ctx)
		if isGone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("describing queue %q: %w", m.name, err)
		}
		infos = append(infos, info)
		if len(infos) == req.Limit {
			break
		}
	}
	return infos, nil
}

// SumQueues implements driver.Admin. It reads each queue, because each has a store of its own.
func (a groupAdmin) SumQueues(ctx context.Context, busiest int) (totals driver.QueueTotals, err error) {
	infos, err := a.Queues(ctx, driver.QueueRequest{})
	for _, info := range infos {
		totals.Add(info, busiest)
	}
	return totals, err
}

// info describes a queue. The call of Control fails if the queue was closed; reading the others
// may still succeed.
func (m member) info(ctx context.Context) (driver.QueueInfo, error) {
	info := driver.QueueInfo{Name: m.name}
	found, err := m.admin.Queues(ctx, driver.QueueRequest{From: m.inner, Limit: 1})
	if err != nil {
		return info, err
	}
	if len(found) > 0 && found[0].Name == m.inner {
		info = found[0]
		info.Name = m.name
	}
	info.Control, err = m.admin.Control(ctx, m.inner, driver.ControlChange{})
	return info, err
}

// CountTypes implements driver.Admin.
func (a groupAdmin) CountTypes(ctx context.Context) ([]driver.TypeCount, error) {
	var all []driver.TypeCount
	known := map[driver.Admin][]driver.TypeCount{} // queues may share a driver
	for _, m := range a.members(nil) {
		counts, isKnown := known[m.admin]
		if !isKnown {
			var err error
			counts, err = m.admin.CountTypes(ctx)
			if isGone(err) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("queue %q: %w", m.name, err)
			}
			known[m.admin] = counts
		}
		for _, count := range counts {
			if count.Queue == m.inner {
				count.Queue = m.name
				all = append(all, count)
			}
		}
	}
	return all, nil
}

// OldestReady implements driver.Admin.
func (a groupAdmin) OldestReady(ctx context.Context, queues []string, now time.Time) (map[string]time.Time, error) {
	all := map[string]time.Time{}
	for _, m := range a.members(queues) {
		since, err := m.admin.OldestReady(ctx, []string{m.inner}, now)
		if isGone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("queue %q: %w", m.name, err)
		}
		if at, found := since[m.inner]; found {
			all[m.name] = at
		}
	}
	return all, nil
}

// Control implements driver.Admin. It returns an error for a change to a queue that is
// not open.
func (a groupAdmin) Control(ctx context.Context, queue string, change driver.ControlChange) (driver.Control, error) {
	m, ok := a.member(queue)
	switch {
	case ok:
		return m.admin.Control(ctx, m.inner, change)
	case change == driver.ControlChange{}:
		return driver.Control{}, nil
	default:
		return driver.Control{}, fmt.Errorf("controlling queue %q: not open", queue)
	}
}

// Keep implements driver.Admin. Notes belong to the group, not to a queue.
func (a groupAdmin) Keep(ctx context.Context, notes ...driver.Note) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("keeping %d notes: %w", len(notes), err)
	}
	return a.group.notes.Keep(notes...)
}

// KeepNew implements driver.Admin.
func (a groupAdmin) KeepNew(ctx context.Context, note driver.Note, now time.Time) (kept driver.Note, isNew bool, err error) {
	if err = ctx.Err(); err != nil {
		return driver.Note{}, false, fmt.Errorf("keeping note %q of kind %q: %w", note.Key, note.Kind, err)
	}
	return a.group.notes.KeepNew(note, now)
}

// Replace implements driver.Admin.
func (a groupAdmin) Replace(ctx context.Context, note driver.Note, old []byte) (replaced bool, err error) {
	if err = ctx.Err(); err != nil {
		return false, fmt.Errorf("replacing note %q of kind %q: %w", note.Key, note.Kind, err)
	}
	return a.group.notes.Replace(note, old)
}

// Notes implements driver.Admin.
func (a groupAdmin) Notes(ctx context.Context, req driver.NoteRequest) ([]driver.Note, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("reading notes of kind %q: %w", req.Kind, err)
	}
	return a.group.notes.Notes(req)
}

// Drop implements driver.Admin.
func (a groupAdmin) Drop(ctx context.Context, kind string, keys ...string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("dropping %d notes of kind %q: %w", len(keys), kind, err)
	}
	a.group.notes.Drop(kind, keys...)
	return nil
}

// Subscribe implements driver.Admin. It also reports that queues are opened later, and
// their changes.
func (a groupAdmin) Subscribe(notify func(driver.Change)) (cancel func()) {
	return a.group.changes.Subscribe(notify)
}

// watch reports that a queue was opened, and its changes until it stops, to the
// subscribers of the group.
func (g *localGroup) watch(q amboy.Queue) {
	admin, _, ok := adminOfQueue(q)
	if !ok {
		return
	}
	cancel := admin.Subscribe(g.changes.Notify)
	if byReference, ok := q.(*local.Queue); ok {
		byReference.OnStop(cancel)
	} else if inner, ok := overDriver(q); ok {
		inner.OnStop(cancel)
	}
	g.changes.Notify(driver.Anywhere)
}
