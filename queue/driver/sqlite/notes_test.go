package sqlite_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// Keeping a note removes only a few expired notes, however many there are, so that the
// caller does not wait for their removal.
func TestNotesThatExpiredAreRemovedInParts(t *testing.T) {
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	db := openRaw(t, path)
	rows := func() (n int) {
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM notes").Scan(&n))
		return n
	}
	var old []driver.Note
	for i := range 250 {
		old = append(old, driver.Note{Kind: "kind", Key: fmt.Sprint(i), Until: time.Now().Add(-time.Minute)})
	}
	require.NoError(t, d.Keep(t.Context(), old...))
	assert.Equal(t, 150, rows())
	note := driver.Note{Kind: "kind", Key: "key", Until: time.Now().Add(time.Hour)}
	require.NoError(t, d.Keep(t.Context(), note))
	assert.Equal(t, 51, rows())
	note.Key = "new"
	_, isNew, err := d.KeepNew(t.Context(), note, time.Now())
	require.NoError(t, err)
	assert.True(t, isNew)
	assert.Equal(t, 2, rows())
}

// A note changes neither jobs nor settings.
func TestNotesNotifyNoSubscribers(t *testing.T) {
	d := open(t, sqlite.Options{Path: newPath(t)})
	told := make(chan struct{}, 100)
	defer d.Subscribe(func(driver.Change) { told <- struct{}{} })()
	note := driver.Note{Kind: "kind", Key: "key", Until: time.Now().Add(time.Hour)}
	require.NoError(t, d.Keep(t.Context(), note))
	_, _, err := d.KeepNew(t.Context(), note, time.Now())
	require.NoError(t, err)
	require.NoError(t, d.Drop(t.Context(), "kind", "key"))
	insert(t, d, newRecord(t, "job"))
	<-told // of the job: the notes came before it
	assert.Empty(t, told)
}

func TestNotesOfAClosedDriverReturnErrClosed(t *testing.T) {
	d := open(t, sqlite.Options{Path: newPath(t)})
	require.NoError(t, d.Close(context.Background()))
	require.ErrorIs(t, d.Keep(t.Context()), driver.ErrClosed)
	require.ErrorIs(t, d.Drop(t.Context(), "kind"), driver.ErrClosed)
}
