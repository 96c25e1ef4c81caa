package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
	"github.com/mongodb/amboy/queue/internal/notes"
)

// endedAtOnce is the maximum number of expired notes that are removed when a note is kept.
const endedAtOnce = 100

// The keys are blobs in the file, so that any keys are compared byte by byte.
const readNotes = `SELECT key, value, until FROM notes WHERE kind = ?1 AND key >= ?2 AND (?3 = x'' OR key < ?3)`

// Keep implements driver.Driver.
func (d *Driver) Keep(ctx context.Context, kept ...driver.Note) error {
	size := 0
	for _, note := range kept {
		if err := note.Validate(); err != nil {
			return err
		}
		size += 1 + len(note.Value)/recordBytes
	}
	err := d.writer.write(ctx, &change{size: size, run: func(c *changes) error {
		for _, note := range kept {
			if err := c.keep(note); err != nil {
				return err
			}
		}
		return c.dropEndedNotes(time.Now())
	}})
	if err != nil {
		return fmt.Errorf("keeping %d notes: %w", len(kept), err)
	}
	return nil
}

// KeepNew implements driver.Driver.
func (d *Driver) KeepNew(ctx context.Context, note driver.Note, now time.Time) (kept driver.Note, isNew bool, err error) {
	err = note.Validate()
	if err != nil {
		return driver.Note{}, false, err
	}
	note.Until = note.Until.UTC().Truncate(time.Millisecond)
	var there driver.Note
	var found bool
	err = d.writer.write(ctx, &change{size: 1 + len(note.Value)/recordBytes, run: func(c *changes) (err error) {
		there = note
		found, err = c.one(findNote, func(r *row) { there.Value, there.Until = r.bytes(), table.TimeOf(r.time()) },
			[]byte(note.Kind), []byte(note.Key), table.InstantOf(now))
		if found || err != nil {
			return err
		}
		err = c.keep(note)
		if err != nil {
			return err
		}
		return c.dropEndedNotes(time.Now())
	}})
	if err != nil {
		return driver.Note{}, false, fmt.Errorf("keeping note %q of kind %q: %w", note.Key, note.Kind, err)
	}
	return there, !found, nil
}

// Replace implements driver.Driver.
func (d *Driver) Replace(ctx context.Context, note driver.Note, old []byte) (replaced bool, err error) {
	err = note.Validate()
	if err != nil {
		return false, err
	}
	var rows int64
	err = d.writer.write(ctx, &change{size: 1 + len(note.Value)/recordBytes, run: func(c *changes) (err error) {
		rows, err = c.exec(replaceNote, note.Value, table.InstantOf(note.Until.Truncate(time.Millisecond)), []byte(note.Kind), []byte(note.Key), old, note.Value)
		return err
	}})
	if err != nil {
		return false, fmt.Errorf("replacing note %q of kind %q: %w", note.Key, note.Kind, err)
	}
	return rows > 0, nil
}

func (c *changes) keep(note driver.Note) error {
	_, err := c.exec(keepNote, []byte(note.Kind), []byte(note.Key), note.Value, table.InstantOf(note.Until.Truncate(time.Millisecond)))
	if err != nil {
		return fmt.Errorf("note %q of kind %q: %w", note.Key, note.Kind, err)
	}
	return nil
}

func (c *changes) dropEndedNotes(now time.Time) error {
	_, err := c.exec(dropEndedNotes, table.InstantOf(now), endedAtOnce)
	return err
}

// Notes implements driver.Driver.
func (d *Driver) Notes(ctx context.Context, req driver.NoteRequest) (found []driver.Note, err error) {
	err = notes.CheckRequest(req)
	if err != nil {
		return nil, err
	}
	text := readNotes + " ORDER BY key LIMIT ?4 + 0"
	if req.Last {
		text = readNotes + " ORDER BY key DESC LIMIT ?4 + 0"
	}
	err = d.reads.query(ctx, text, func(r *row) error {
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
	err := d.writer.write(ctx, &change{size: len(keys), run: func(c *changes) error {
		for _, key := range keys {
			if _, err := c.exec(dropNote, []byte(kind), []byte(key)); err != nil {
				return err
			}
		}
		return nil
	}})
	if err != nil {
		return fmt.Errorf("dropping %d notes of kind %q: %w", len(keys), kind, err)
	}
	return nil
}
