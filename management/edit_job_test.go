package management_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
)

// putPaused puts a letter in a paused queue, and returns an inspector of the queue.
func putPaused(t *testing.T, q amboy.Queue, l letter, opts ...job.Option) management.Inspector {
	t.Helper()
	require.NoError(t, q.(amboy.QueueController).Pause(t.Context()))
	_, err := post.Put(t.Context(), q, l, append(opts, job.ID("letter"))...)
	require.NoError(t, err)
	i, err := management.NewInspector(q)
	require.NoError(t, err)
	return i
}

func TestEditOfAWaitingJob(t *testing.T) {
	for name, open := range map[string]func(*testing.T) amboy.Queue{"sqlite": openSQLite, "memory": openSerializable} {
		t.Run(name, func(t *testing.T) {
			q := open(t)
			i := putPaused(t, q, letter{To: "nobody", Copies: 9_007_199_254_740_993})
			was, err := i.Job(t.Context(), "", "letter")
			require.NoError(t, err)
			assert.Equal(t, []string{"args", "priority", "due"}, was.Editable)

			due := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
			edit := management.JobEdit{
				Args:     json.RawMessage(strings.Replace(string(was.Args), "nobody", "ann", 1)),
				Priority: new(3), Due: &due, Revision: was.Revision, DryRun: true,
			}
			preview, err := i.EditJob(t.Context(), "", "letter", edit)
			require.NoError(t, err)
			require.Len(t, preview.Changes, 3)
			assert.Equal(t, was.Revision, preview.Revision)
			assert.JSONEq(t, string(was.Args), string(preview.Changes[0].From))
			assert.JSONEq(t, string(edit.Args), string(preview.Changes[0].To))
			same, err := i.Job(t.Context(), "", "letter")
			require.NoError(t, err)
			was.Reason, was.Timeline, same.Reason, same.Timeline = "", nil, "", nil
			assert.Equal(t, was, same, "a dry run changes nothing")

			edit.DryRun = false
			edited, err := i.EditJob(management.WithActor(t.Context(), "ada"), "", "letter", edit)
			require.NoError(t, err)
			preview.Revision = edited.Revision
			assert.Equal(t, preview, edited)
			is, err := i.Job(t.Context(), "", "letter")
			require.NoError(t, err)
			assert.JSONEq(t, string(edit.Args), string(is.Args))
			assert.Equal(t, 3, is.Priority)
			assert.WithinDuration(t, due, is.Due, 0)
			assert.Equal(t, edited.Revision, is.Revision)
			assert.Equal(t, was.Tags, is.Tags)
			assert.Equal(t, was.Scopes, is.Scopes, "the scopes stay those of the former arguments")

			audit, err := i.Audit(t.Context(), management.AuditFilter{}, management.PageRequest{})
			require.NoError(t, err)
			entry := audit.Entries[0]
			assert.Equal(t, "edit", entry.What)
			assert.Equal(t, "ada", entry.Actor)
			assert.Equal(t, 1, entry.Done)
			assert.NotContains(t, entry.Detail, "ann", "the audit list has no arguments")

			_, err = i.EditJob(t.Context(), "", "letter", management.JobEdit{Priority: new(4), Revision: was.Revision})
			var state *management.StateError
			require.ErrorAs(t, err, &state, "somebody else changed it")
			assert.Contains(t, err.Error(), "has changed since")

			past := time.Now().Add(-time.Hour)
			_, err = i.EditJob(t.Context(), "", "letter", management.JobEdit{Due: &past})
			require.NoError(t, err)
			require.NoError(t, q.(amboy.QueueController).Resume(t.Context()))
			result, err := post.Wait(t.Context(), q, "letter")
			require.NoError(t, err)
			assert.Equal(t, "sent to ann", result)
			_, err = i.EditJob(t.Context(), "", "letter", management.JobEdit{Priority: new(9)})
			require.ErrorAs(t, err, &state)
			assert.Equal(t, amboy.StateSucceeded, state.State)
		})
	}
}

func TestEditThatChangesNothingDoesNothing(t *testing.T) {
	q := openSQLite(t)
	i := putPaused(t, q, letter{To: "ann"}, job.Priority(2))
	was, err := i.Job(t.Context(), "", "letter")
	require.NoError(t, err)
	edited, err := i.EditJob(t.Context(), "", "letter", management.JobEdit{Args: json.RawMessage(` {"copies": 0, "to": "ann"} `), Priority: new(2)})
	require.NoError(t, err)
	assert.Equal(t, management.JobEdited{Changes: []management.FieldChange{}, Revision: was.Revision}, edited)
}

func TestEditRefusesWhatIsNoArgumentsOfTheType(t *testing.T) {
	q := openSQLite(t)
	i := putPaused(t, q, letter{To: "ann"})
	was, err := i.Job(t.Context(), "", "letter")
	require.NoError(t, err)
	for _, args := range []string{`{"to":"bob","type":"shell"}`, `{"to":7}`, `"bob"`, `{`, ``, `{"copies":1e400}`} {
		_, err = i.EditJob(t.Context(), "", "letter", management.JobEdit{Args: json.RawMessage(args)})
		var wrong *management.InvalidArgumentError
		require.ErrorAs(t, err, &wrong, args)
	}
	is, err := i.Job(t.Context(), "", "letter")
	require.NoError(t, err)
	assert.JSONEq(t, string(was.Args), string(is.Args))
	assert.Equal(t, was.Revision, is.Revision)
}

// The arguments of jobs of hand-written types are not separate from what the queue keeps.
func TestEditOfAHandWrittenTypeHasNoArguments(t *testing.T) {
	q := openSQLite(t)
	require.NoError(t, q.(amboy.QueueController).Pause(t.Context()))
	require.NoError(t, q.Put(t.Context(), newTask("task", "alpha")))
	i, err := management.NewInspector(q)
	require.NoError(t, err)
	j, err := i.Job(t.Context(), "", "task")
	require.NoError(t, err)
	assert.Equal(t, []string{"priority", "due"}, j.Editable)
	_, err = i.EditJob(t.Context(), "", "task", management.JobEdit{Args: j.Args})
	require.ErrorIs(t, err, management.ErrUnsupported)
	_, err = i.EditJob(t.Context(), "", "task", management.JobEdit{Priority: new(5)})
	require.NoError(t, err)
}

func TestEditOfAJobForOutsideWorkers(t *testing.T) {
	q := openSQLite(t)
	require.NoError(t, q.(amboy.QueueController).Pause(t.Context()))
	j, err := job.NewOutside(amboy.JobType{Name: "resize outside", Version: 1}, job.Payload{JSON: json.RawMessage(`{"n":18446744073709551615}`)}, job.ID("outside"))
	require.NoError(t, err)
	require.NoError(t, q.Put(t.Context(), j))
	i, err := management.NewInspector(q)
	require.NoError(t, err)
	edited, err := i.EditJob(t.Context(), "", "outside", management.JobEdit{Args: json.RawMessage(`{"n":18446744073709551614,"new":true}`)})
	require.NoError(t, err)
	assert.JSONEq(t, `{"n":18446744073709551615}`, string(edited.Changes[0].From))
	is, err := i.Job(t.Context(), "", "outside")
	require.NoError(t, err)
	assert.Equal(t, `{"n":18446744073709551614,"new":true}`, string(is.Args))
}

func TestEditOfAnEncryptedJobNeedsReveal(t *testing.T) {
	q, _ := newEncryptedQueue(t)
	i := putPaused(t, q, letter{To: "ann"})
	edit := management.JobEdit{Args: json.RawMessage(`{"to":"bob","copies":0}`)}
	_, err := i.EditJob(t.Context(), "q", "letter", edit)
	require.ErrorIs(t, err, management.ErrUnsupported)
	assert.NotContains(t, err.Error(), "ann")
	revealed := management.WithReveal(t.Context())
	_, err = i.EditJob(revealed, "q", "letter", edit)
	require.NoError(t, err)
	j, err := i.Job(t.Context(), "q", "letter")
	require.NoError(t, err)
	assert.True(t, j.Encrypted, "it is encrypted again")
	assert.Equal(t, "encrypted", j.ArgsHidden)
	require.NoError(t, q.(amboy.QueueController).Resume(t.Context()))
	result, err := post.Wait(t.Context(), q, "letter")
	require.NoError(t, err)
	assert.Equal(t, "sent to bob", result)
}

// A job that started between the read and the write of an edit is not changed.
func TestEditOfAJobThatStartedMeanwhileIsRefused(t *testing.T) {
	q := openSQLite(t)
	i := putPaused(t, q, letter{To: "ann"})
	was, err := i.Job(t.Context(), "", "letter")
	require.NoError(t, err)
	require.NoError(t, q.(amboy.QueueController).Resume(t.Context()))
	_, err = post.Wait(t.Context(), q, "letter")
	require.NoError(t, err)
	_, err = i.EditJob(t.Context(), "", "letter", management.JobEdit{Priority: new(1), Revision: was.Revision})
	var state *management.StateError
	require.ErrorAs(t, err, &state)
	assert.Equal(t, management.Edit, state.Action)
	assert.Contains(t, err.Error(), "requires a job that has not started")
}
