package memory_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
)

// Keeping a note removes the notes that have expired by the driver's clock.
func TestNotesExpireByTheClock(t *testing.T) {
	now := time.Now()
	d, err := memory.New(memory.Options{KeepFinished: 1, Now: func() time.Time { return now }})
	require.NoError(t, err)
	keys := func() (keys []string) {
		notes, err := d.Notes(t.Context(), driver.NoteRequest{Kind: "kind", Limit: 10})
		require.NoError(t, err)
		for _, n := range notes {
			keys = append(keys, n.Key)
		}
		return keys
	}
	keep := func(key string, until time.Time) {
		require.NoError(t, d.Keep(t.Context(), driver.Note{Kind: "kind", Key: key, Until: until}))
	}
	keep("minute", now.Add(time.Minute))
	keep("hour", now.Add(time.Hour))
	now = now.Add(2 * time.Minute)
	keep("later", now.Add(time.Minute))
	assert.Equal(t, []string{"hour", "later"}, keys())
}

// A note changes neither jobs nor settings.
func TestNotesNotifyNoSubscribers(t *testing.T) {
	d, err := memory.New(memory.Options{KeepFinished: 1})
	require.NoError(t, err)
	told := 0
	defer d.Subscribe(func(driver.Change) { told++ })()
	note := driver.Note{Kind: "kind", Key: "key", Until: time.Now().Add(time.Hour)}
	require.NoError(t, d.Keep(t.Context(), note))
	_, _, err = d.KeepNew(t.Context(), note, time.Now())
	require.NoError(t, err)
	require.NoError(t, d.Drop(t.Context(), "kind", "key"))
	assert.Zero(t, told)
}
