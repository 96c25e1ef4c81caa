package management_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/codec"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
)

func newEncryptedQueue(t *testing.T) (amboy.Queue, *memory.Driver) {
	t.Helper()
	store, err := memory.New(memory.Options{KeepFinished: 10})
	require.NoError(t, err)
	encrypting, err := codec.NewAESGCM(codec.Key{ID: "key", Secret: make([]byte, codec.KeyBytes)})
	require.NoError(t, err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, Name: "q", NumWorkers: 1, Codec: encrypting})
	require.NoError(t, err)
	t.Cleanup(func() { q.Close(context.Background()) })
	require.NoError(t, q.Start(t.Context()))
	return q, store
}

func TestEncryptedJobsAreShownOnRequest(t *testing.T) {
	q, store := newEncryptedQueue(t)
	_, err := post.Put(t.Context(), q, letter{To: "ann"}, job.ID("letter"))
	require.NoError(t, err)
	_, err = post.Wait(t.Context(), q, "letter")
	require.NoError(t, err)

	i, err := management.NewInspector(q)
	require.NoError(t, err)
	j, err := i.Job(t.Context(), "q", "letter")
	require.NoError(t, err)
	assert.True(t, j.Encrypted)
	assert.Nil(t, j.Args)
	assert.Nil(t, j.Result)
	assert.Equal(t, "encrypted", j.ArgsHidden)
	assert.Equal(t, "encrypted", j.ResultHidden)
	assert.Equal(t, []string{"mail"}, j.Tags)

	j, err = i.Job(management.WithReveal(t.Context()), "q", "letter")
	require.NoError(t, err)
	assert.True(t, j.Encrypted)
	assert.Contains(t, string(j.Args), `"to":"ann"`)
	assert.JSONEq(t, `"sent to ann"`, string(j.Result))
	assert.Empty(t, j.ArgsHidden+j.ResultHidden)

	// A process without the keys can't show them.
	without, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, Name: "q", NumWorkers: 1})
	require.NoError(t, err)
	defer without.Close(context.Background())
	i, err = management.NewInspector(without)
	require.NoError(t, err)
	j, err = i.Job(management.WithReveal(t.Context()), "q", "letter")
	require.NoError(t, err)
	assert.Nil(t, j.Args)
	assert.Equal(t, `encrypted, and this process can't read the stored job of job "letter" of type "post": it was encoded by codec "xaes-256-gcm" with key "key", and its queue has no codec in this process: the key is not available`, j.ArgsHidden)
}

func TestAJobWithoutAResultHasNoneToHide(t *testing.T) {
	q, _ := newEncryptedQueue(t)
	_, err := post.Put(t.Context(), q, letter{}, job.ID("fails"))
	require.NoError(t, err)
	_, err = post.Wait(t.Context(), q, "fails")
	require.Error(t, err)
	i, err := management.NewInspector(q)
	require.NoError(t, err)
	j, err := i.Job(t.Context(), "q", "fails")
	require.NoError(t, err)
	assert.Equal(t, "encrypted", j.ArgsHidden)
	assert.Empty(t, j.ResultHidden)
	assert.NotEmpty(t, j.Errors, "errors are readable")
}
