package management_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// The arguments of a schedule may be secret. MaskArgs hides them from clients, but not errors and
// the audit list.
func TestErrorsOfAScheduleShowedItsArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newScheduleWorld(t, newMemory(t))
		w.open("acme")
		spec := everyMinute()
		spec.Args = json.RawMessage(`{"key":"secret"}`)
		w.create("acme", "report", spec)
		// A new version of the program has renamed the argument.
		store, ok := queue.StoreOfGroup(w.group)
		require.True(t, ok)
		notes, err := store.Admin().Notes(t.Context(), driver.NoteRequest{Kind: "stored-schedule", Limit: 1})
		require.NoError(t, err)
		notes[0].Value = bytes.ReplaceAll(notes[0].Value, []byte(`"key"`), []byte(`"old_key"`))
		require.NoError(t, store.Admin().Keep(t.Context(), notes...))

		time.Sleep(time.Minute)
		_, err = w.runner().PutDue(t.Context())
		require.NoError(t, err)
		assert.Contains(t, w.get().Error, "args")
		assert.NotContains(t, w.get().Error, "secret", "of a tick")

		var invalid *management.InvalidArgumentError
		_, err = w.inspector.TriggerSchedule(t.Context(), "acme", "report", "")
		require.ErrorAs(t, err, &invalid)
		assert.NotContains(t, err.Error(), "secret", "of a run by hand")
		unchanged := everyMinute()
		unchanged.Priority = 1
		_, err = w.inspector.ChangeSchedule(t.Context(), "acme", "report", management.ScheduleChange{ScheduleSpec: unchanged})
		require.ErrorAs(t, err, &invalid)
		assert.NotContains(t, err.Error(), "secret", "of a change that keeps the arguments")

		spec.Args = json.RawMessage(`{"unknown":"secret"}`)
		_, err = w.inspector.ChangeSchedule(t.Context(), "acme", "report", management.ScheduleChange{ScheduleSpec: spec})
		require.ErrorAs(t, err, &invalid)
		assert.Contains(t, err.Error(), "secret", "who sent them may see them")
		_, err = w.inspector.CreateSchedule(t.Context(), "acme", "other", spec)
		require.ErrorAs(t, err, &invalid)
		audit, err := w.inspector.Audit(t.Context(), management.AuditFilter{}, management.PageRequest{})
		require.NoError(t, err)
		for _, entry := range audit.Entries {
			assert.NotContains(t, entry.Detail, "secret", "the audit list")
			assert.NotContains(t, entry.Error, "secret", "the audit list")
		}
	})
}
