package presence_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/presence"
	"github.com/mongodb/amboy/queue/driver"
)

var noon = time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)

func TestTheNoteOfAProcess(t *testing.T) {
	p := presence.Process{
		ID: "driver.host.1.2", Host: "host", PID: 1, Started: noon.Add(-time.Hour), Seen: noon,
		Queues: []presence.Queue{{Name: "a", Workers: 3, Started: true}},
	}
	note, err := p.Note()
	require.NoError(t, err)
	require.NoError(t, note.Validate())
	assert.Equal(t, p.ID, note.Key)
	assert.Equal(t, noon.Add(time.Hour), note.Until)
	var read presence.Process
	require.NoError(t, presence.Decode(note, &read))
	assert.Equal(t, p, read)
}

func TestTheNoteOfAProcessWithTooManyQueues(t *testing.T) {
	p := presence.Process{ID: "driver.host.1.2", Seen: noon}
	for i := range 100_000 {
		p.Queues = append(p.Queues, presence.Queue{Name: fmt.Sprint("queue", i)})
	}
	note, err := p.Note()
	require.NoError(t, err)
	require.NoError(t, note.Validate())
	var read presence.Process
	require.NoError(t, presence.Decode(note, &read))
	assert.Greater(t, len(read.Queues), 1000)
	assert.True(t, read.MoreQueues)
	assert.Len(t, p.Queues, 100_000, "unchanged")
}

func TestNotesOfWorkers(t *testing.T) {
	for _, name := range []string{"", "queue", "queue \x00é"} {
		note, err := presence.WorkersNote(name, 7, noon)
		require.NoError(t, err)
		require.NoError(t, note.Validate())
		queue, n, err := presence.WorkersOf(note)
		require.NoError(t, err)
		assert.Equal(t, name, queue)
		assert.Equal(t, 7, n)
	}
	for name, note := range map[string]driver.Note{
		"no JSON":     {Kind: presence.WorkersKind, Key: "queue a", Value: []byte("7")},
		"too many":    {Kind: presence.WorkersKind, Key: "queue a", Value: []byte(`{"workers":10001}`)},
		"negative":    {Kind: presence.WorkersKind, Key: "queue a", Value: []byte(`{"workers":-1}`)},
		"another key": {Kind: presence.WorkersKind, Key: "a", Value: []byte(`{"workers":1}`)},
	} {
		_, _, err := presence.WorkersOf(note)
		assert.Error(t, err, name)
	}
}

func TestTheNoteOfAScheduleWithLongTexts(t *testing.T) {
	s := presence.Schedule{Queue: "q", Name: "n", Spec: strings.Repeat("é", 5000), Error: strings.Repeat("x", 100_000), Seen: noon}
	note, err := s.Note()
	require.NoError(t, err)
	require.NoError(t, note.Validate())
	assert.Less(t, len(note.Value), 3000)
	assert.Equal(t, presence.ScheduleKey("q", "n"), note.Key)
	assert.NotEqual(t, presence.ScheduleKey("a b", "c"), presence.ScheduleKey("a", "b c"))
}
