package management

import (
	"context"
	"iter"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
)

// leaveOut tells of a note that can't be read, without which people are shown the
// others: a process of another version may have written it.
func leaveOut(ctx context.Context, note driver.Note, err error) {
	logging.Warning(ctx, message.Fields{
		"message": "left out a note that can't be read",
		"kind":    note.Kind,
		"key":     note.Key,
		"error":   err.Error(),
	})
}

// notesPage is the number of notes that are read at a time.
const notesPage = 200

// notes yields the notes of a kind whose time has not come, from a key on. An error is
// the last that it yields.
func (i *inspector) notes(ctx context.Context, kind, from string) iter.Seq2[driver.Note, error] {
	return func(yield func(driver.Note, error) bool) {
		now := i.store.Now()
		for {
			found, err := i.store.Admin().Notes(ctx, driver.NoteRequest{Kind: kind, From: from, Limit: notesPage})
			if err != nil {
				yield(driver.Note{}, err)
				return
			}
			for _, note := range found {
				if note.Until.After(now) && !yield(note, nil) {
					return
				}
			}
			if len(found) < notesPage {
				return
			}
			from = found[len(found)-1].Key + "\x00"
		}
	}
}
