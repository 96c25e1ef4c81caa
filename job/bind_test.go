package job_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
)

// Only processes that put jobs could import the package that declares them: a process that runs
// them had to define them a second time.
func TestADeclaredJobCannotRunInAProcessThatImportsItsPackage(t *testing.T) {
	double := job.DeclareResult[int, int](newName(), 1)
	store, err := memory.New(memory.Options{KeepFinished: 100})
	require.NoError(t, err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1})
	require.NoError(t, err)
	t.Cleanup(func() { q.Close(context.Background()) })
	require.NoError(t, q.Start(t.Context()))
	early, err := double.Put(t.Context(), q, 21) // as by a process without the function
	require.NoError(t, err)
	next := job.Define(newName(), 1, succeed[int])
	require.NoError(t, next.PutAndWait(t.Context(), q, 0), "the queue has left the first job to others")
	require.NoError(t, double.Bind(func(_ context.Context, n int) (int, error) { return 2 * n, nil }))
	result, err := double.Wait(t.Context(), q, early)
	require.NoError(t, err)
	assert.Equal(t, 42, result)

	require.NoError(t, double.Bind(func(_ context.Context, n int) (int, error) { return 3 * n, nil }))
	result, err = double.PutAndWait(t.Context(), q, 2)
	require.NoError(t, err)
	assert.Equal(t, 6, result)
}

func TestABoundJobRunsInAQueueByReference(t *testing.T) {
	d := job.Declare[string](newName(), 1)
	q := queue.NewLocalLimitedSize(1, 10)
	require.NoError(t, q.Start(t.Context()))
	t.Cleanup(func() { q.Close(context.Background()) })
	_, err := d.Put(t.Context(), q, "x")
	require.Error(t, err)
	var got string
	require.NoError(t, d.Bind(func(_ context.Context, s string) error { got = s; return nil }))
	require.NoError(t, d.PutAndWait(t.Context(), q, "x"))
	assert.Equal(t, "x", got)
}

func TestBindRefuses(t *testing.T) {
	var invalid *job.InvalidDefinitionError
	require.ErrorAs(t, job.Declare[string](newName(), 1).Bind(nil), &invalid)
	require.ErrorAs(t, job.DeclareResult[string, int](newName(), 1).Bind(nil), &invalid)
	err := job.Define(newName(), 1, succeed[string]).Bind(succeed[string])
	require.ErrorAs(t, err, &invalid)
	require.ErrorContains(t, err, "use Declare")
	var taken *job.DuplicateDefinitionError
	name := job.Define(newName(), 1, succeed[string]).Type().Name
	require.ErrorAs(t, job.Declare[string](name, 1).Bind(succeed[string]), &taken)
}

func TestRunOnFailure(t *testing.T) {
	ctx := t.Context()
	q := inline()
	t.Cleanup(func() { q.Close(context.Background()) })
	fails := job.Define(newName(), 1, func(context.Context, int) error { return errors.New("no") })
	first, err := fails.Put(ctx, q, 0)
	require.NoError(t, err)
	cleanUp := job.Define(newName(), 1, succeed[int])
	after, err := cleanUp.Put(ctx, q, 0, job.After(first), job.RunOnFailure())
	require.NoError(t, err)
	other, err := cleanUp.Put(ctx, q, 0, job.After(first))
	require.NoError(t, err)
	q.RunAll(ctx)
	require.NoError(t, cleanUp.Wait(ctx, q, after))
	require.Error(t, cleanUp.Wait(ctx, q, other))
}
