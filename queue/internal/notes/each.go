package notes

import (
	"context"

	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/queue/driver"
)

// pageSize is the number of notes that Each reads at a time.
const pageSize = 1000

// Each calls visit for all notes of a store that match a request, until visit returns an
// error, which Each returns. It reads the notes page by page.
func Each(ctx context.Context, admin driver.Admin, request driver.NoteRequest, visit func(driver.Note) error) error {
	request.Limit = pageSize
	for {
		var page []driver.Note
		err := contain.Panic(func() (err error) {
			page, err = admin.Notes(ctx, request)
			return err
		})
		if err != nil {
			return err
		}
		for _, note := range page {
			if err := visit(note); err != nil {
				return err
			}
		}
		if len(page) < request.Limit {
			return nil
		}
		request.From = page[len(page)-1].Key + "\x00"
	}
}
