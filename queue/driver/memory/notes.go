package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// checkOpen returns an error if the context has ended or the driver is closed.
func (d *Driver) checkOpen(ctx context.Context) error {
	if err := d.lock(ctx); err != nil {
		return err
	}
	d.unlock()
	return nil
}

// Keep implements driver.Driver.
func (d *Driver) Keep(ctx context.Context, notes ...driver.Note) error {
	if err := d.checkOpen(ctx); err != nil {
		return fmt.Errorf("keeping %d notes: %w", len(notes), err)
	}
	return d.notes.Keep(notes...)
}

// KeepNew implements driver.Driver.
func (d *Driver) KeepNew(ctx context.Context, note driver.Note, now time.Time) (kept driver.Note, isNew bool, err error) {
	if err = d.checkOpen(ctx); err != nil {
		return driver.Note{}, false, fmt.Errorf("keeping note %q of kind %q: %w", note.Key, note.Kind, err)
	}
	return d.notes.KeepNew(note, now)
}

// Replace implements driver.Driver.
func (d *Driver) Replace(ctx context.Context, note driver.Note, old []byte) (replaced bool, err error) {
	if err = d.checkOpen(ctx); err != nil {
		return false, fmt.Errorf("replacing note %q of kind %q: %w", note.Key, note.Kind, err)
	}
	return d.notes.Replace(note, old)
}

// Notes implements driver.Driver.
func (d *Driver) Notes(ctx context.Context, req driver.NoteRequest) ([]driver.Note, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("reading notes of kind %q: %w", req.Kind, err)
	}
	return d.notes.Notes(req)
}

// Drop implements driver.Driver.
func (d *Driver) Drop(ctx context.Context, kind string, keys ...string) error {
	if err := d.checkOpen(ctx); err != nil {
		return fmt.Errorf("dropping %d notes of kind %q: %w", len(keys), kind, err)
	}
	d.notes.Drop(kind, keys...)
	return nil
}
