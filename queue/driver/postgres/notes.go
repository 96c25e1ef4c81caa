package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
	"github.com/mongodb/amboy/queue/internal/notes"
)

// endedNotesAtOnce is the maximum number of expired notes that are removed when a note is kept.
const endedNotesAtOnce = 100

// Keep implements driver.Driver.
func (d *Driver) Keep(ctx context.Context, kept ...driver.Note) error {
	for _, note := range kept {
		if err := note.Validate(); err != nil {
			return err
		}
	}
	err := d.retrying(ctx, func(ctx context.Context) (bool, error) {
		return d.pipeline(ctx, func(b *batch) {
			for _, note := range kept {
				b.exec(keepNote, []byte(note.Kind), []byte(note.Key), note.Value, untilOf(note))
			}
			b.exec(dropEndedNotes, time.Now().UnixNano(), endedNotesAtOnce)
		})
	})
	if err != nil {
		return fmt.Errorf("keeping %d notes: %w", len(kept), err)
	}
	d.followPool()
	return nil
}

func untilOf(note driver.Note) table.Instant {
	return table.InstantOf(note.Until.Truncate(time.Millisecond))
}

// KeepNew implements driver.Driver.
func (d *Driver) KeepNew(ctx context.Context, note driver.Note, now time.Time) (kept driver.Note, isNew bool, err error) {
	err = note.Validate()
	if err != nil {
		return driver.Note{}, false, err
	}
	note.Until = note.Until.UTC().Truncate(time.Millisecond)
	err = d.transact(ctx, noQueue, func(c *changes) error {
		kept, isNew = note, false
		n, failure := c.execNow(keepNewNote, []byte(note.Kind), []byte(note.Key), note.Value, untilOf(note), table.InstantOf(now))
		if n > 0 || failure != nil {
			isNew = n > 0
			return failure
		}
		_, failure = c.one(findNote, func(r *row) { kept.Value, kept.Until = r.bytes(), table.TimeOf(r.time()) }, []byte(note.Kind), []byte(note.Key))
		return failure
	})
	if err != nil {
		return driver.Note{}, false, fmt.Errorf("keeping note %q of kind %q: %w", note.Key, note.Kind, err)
	}
	return kept, isNew, nil
}

// Replace implements driver.Driver.
func (d *Driver) Replace(ctx context.Context, note driver.Note, old []byte) (replaced bool, err error) {
	err = note.Validate()
	if err != nil {
		return false, err
	}
	rows, err := d.changeOnce(ctx, replaceNote, []byte(note.Kind), []byte(note.Key), note.Value, untilOf(note), old)
	if err != nil {
		return false, fmt.Errorf("replacing note %q of kind %q: %w", note.Key, note.Kind, err)
	}
	return rows > 0, nil
}

// readNotes finds notes by kind and the bounds of their keys.
const readNotes = `SELECT key, value, until FROM {s}.notes WHERE kind = $1 AND key >= $2 AND ($3 = ''::bytea OR key < $3) ORDER BY key`

// Notes implements driver.Driver.
func (d *Driver) Notes(ctx context.Context, req driver.NoteRequest) (found []driver.Note, err error) {
	err = notes.CheckRequest(req)
	if err != nil {
		return nil, err
	}
	text := readNotes + " LIMIT $4"
	if req.Last {
		text = readNotes + " DESC LIMIT $4"
	}
	err = d.readText(ctx, d.inSchema(text), func(r *row) error {
		found = append(found, driver.Note{Kind: req.Kind, Key: string(r.bytes()), Value: r.bytes(), Until: table.TimeOf(r.time())})
		return nil
	}, []byte(req.Kind), []byte(req.From), []byte(req.To), req.Limit)
	if err != nil {
		return nil, fmt.Errorf("reading notes of kind %q: %w", req.Kind, err)
	}
	return found, nil
}

// Drop implements driver.Driver.
func (d *Driver) Drop(ctx context.Context, kind string, keys ...string) error {
	list := make([][]byte, len(keys))
	for i, key := range keys {
		list[i] = []byte(key)
	}
	_, err := d.changeOnce(ctx, dropNotes, []byte(kind), list)
	if err != nil {
		return fmt.Errorf("dropping %d notes of kind %q: %w", len(keys), kind, err)
	}
	return nil
}
