package queue

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/internal/presence"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/notes"
)

// groupAnnouncer copies the notes of the queues of a local group to the notes of the
// group, under the names that the queues have in the group.
type groupAnnouncer struct {
	// turn has room for one caller, which may use the fields below.
	turn chan struct{}
	at   time.Time
	// copied holds the queues whose notes were copied at that time.
	copied map[amboy.Queue]bool
}

func newGroupAnnouncer() groupAnnouncer { return groupAnnouncer{turn: make(chan struct{}, 1)} }

// refresh makes all open queues store what is new, and copies their notes. It does
// nothing if it did so less than a second ago for the same queues.
func (a *groupAnnouncer) refresh(ctx context.Context, g *localGroup) error {
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	now := time.Now()
	open := g.OpenQueues()
	after := a.at
	copied := map[amboy.Queue]bool{}
	for _, q := range open {
		copied[q] = true
		if !a.copied[q] {
			after = time.Time{} // the queue may have notes from before it joined the group
		}
	}
	if now.Sub(a.at).Abs() < presence.Soon && maps.Equal(copied, a.copied) {
		return nil
	}
	c := groupNotes{buckets: map[noteName]activity.Bucket{}, processes: map[string]presence.Process{}}
	var errs []error
	for name, q := range open {
		s, ok := StoreOf(q)
		if !ok {
			continue
		}
		err := errors.Join(s.Refresh(ctx), c.add(ctx, s, name, after))
		if err != nil && !isGone(err) {
			errs = append(errs, err)
		}
	}
	errs = append(errs, c.keep(ctx, g.admin()))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	a.at, a.copied = now, copied
	return nil
}

// groupNotes collects the notes of the queues of a group. Several queues may contribute
// to one note.
type groupNotes struct {
	buckets   map[noteName]activity.Bucket
	backlogs  []driver.Note
	processes map[string]presence.Process
	schedules []presence.Schedule
}

type noteName struct{ kind, key string }

// add adds the notes of a queue's store: its process and schedules, and the activity that
// changed after a time.
func (c *groupNotes) add(ctx context.Context, s *Store, name string, after time.Time) error {
	inner := s.Queues()[0]
	for kind, span := range map[string]time.Duration{activity.MinuteKind: 3 * time.Minute, activity.HourKind: 2 * time.Hour, activity.SixHoursKind: 12 * time.Hour} {
		request := driver.NoteRequest{Kind: kind}
		if !after.IsZero() {
			request.From = activity.KeyOf(after.Add(-span))
		}
		err := notes.Each(ctx, s.admin, request, func(note driver.Note) error { return c.addActivity(note, inner, name) })
		if err != nil {
			return err
		}
	}
	for _, step := range []activity.Step{activity.Minute, activity.Hour, activity.SixHours} {
		request := driver.NoteRequest{Kind: activity.BacklogKind(step)}
		if !after.IsZero() {
			request.From = activity.KeyOf(after.Add(-2 * step.Length()))
		}
		err := notes.Each(ctx, s.admin, request, func(note driver.Note) error { return c.addBacklog(note, inner, name) })
		if err != nil {
			return err
		}
	}
	err := notes.Each(ctx, s.admin, driver.NoteRequest{Kind: presence.ProcessKind}, func(note driver.Note) error {
		return c.addProcess(note, inner, name)
	})
	if err != nil {
		return err
	}
	return notes.Each(ctx, s.admin, driver.NoteRequest{Kind: presence.ScheduleKind}, func(note driver.Note) error {
		return c.addSchedule(note, inner, name)
	})
}

// addActivity adds the rows about a queue, under its name in the group.
func (c *groupNotes) addActivity(note driver.Note, inner, name string) error {
	b, err := activity.Decode(note.Value)
	if err != nil {
		return err
	}
	var rows []activity.Row
	for _, row := range b.Rows {
		if row.Queue == inner {
			row.Queue = name
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	id := noteName{note.Kind, note.Key}
	b.Rows = slices.Concat(c.buckets[id].Rows, rows)
	c.buckets[id] = b
	return nil
}

// addBacklog adds the row about a queue, under its name in the group.
func (c *groupNotes) addBacklog(note driver.Note, inner, name string) error {
	b, err := activity.DecodeBacklogs(note.Value)
	if err != nil {
		return err
	}
	row, known := b.Of([]string{inner})
	if !known {
		return nil
	}
	row.Queue = name
	c.backlogs = append(c.backlogs, activity.Backlogs{Start: b.Start, Step: b.Step, Sum: row, Rows: []activity.Backlog{row}}.Note(name))
	return nil
}

func (c *groupNotes) addProcess(note driver.Note, inner, name string) error {
	var p presence.Process
	if err := presence.Decode(note, &p); err != nil {
		return err
	}
	queues := c.processes[note.Key].Queues
	for _, q := range p.Queues {
		if q.Name == inner {
			q.Name = name
			queues = append(queues, q)
		}
	}
	if len(queues) > 0 {
		p.Queues = queues
		c.processes[note.Key] = p
	}
	return nil
}

func (c *groupNotes) addSchedule(note driver.Note, inner, name string) error {
	var s presence.Schedule
	if err := presence.Decode(note, &s); err != nil {
		return err
	}
	if s.Queue == inner {
		s.Queue = name
		c.schedules = append(c.schedules, s)
	}
	return nil
}

// keep stores the collected notes as those of the group, and removes other notes about
// processes and schedules.
func (c *groupNotes) keep(ctx context.Context, admin driver.Admin) error {
	here := map[noteName]bool{}
	var stored []driver.Note
	add := func(note driver.Note, err error) error {
		stored = append(stored, note)
		here[noteName{note.Kind, note.Key}] = true
		return err
	}
	for name, b := range c.buckets {
		value, err := b.Encode()
		if err != nil {
			return err
		}
		stored = append(stored, driver.Note{Kind: name.kind, Key: name.key, Value: value, Until: b.Until()})
	}
	stored = append(stored, c.backlogs...)
	for _, p := range c.processes {
		if err := add(p.Note()); err != nil {
			return err
		}
	}
	for _, s := range c.schedules {
		if err := add(s.Note()); err != nil {
			return err
		}
	}
	for _, kind := range []string{presence.ProcessKind, presence.ScheduleKind} {
		var gone []string
		err := notes.Each(ctx, admin, driver.NoteRequest{Kind: kind}, func(note driver.Note) error {
			if !here[noteName{kind, note.Key}] {
				gone = append(gone, note.Key)
			}
			return nil
		})
		if err == nil {
			err = admin.Drop(ctx, kind, gone...)
		}
		if err != nil {
			return err
		}
	}
	return admin.Keep(ctx, stored...)
}
