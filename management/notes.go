package management

import (
	"context"
	"iter"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
)

// logUnreadableNote logs that a note was skipped because it can't be decoded. A process of
// another version may have written it.
func logUnreadableNote(ctx context.Context, note driver.Note, err error) {
	logging.Warning(ctx, message.Fields{
		"message": "skipped a note that can't be decoded",
		"kind":    note.Kind,
		"key":     note.Key,
		"error":   err.Error(),
	})
}

// notesPage is the number of notes that are read at a time.
const notesPage = 200

// notes yields the notes of a kind that have not expired, starting at a key. After an error
// it yields nothing more.
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
