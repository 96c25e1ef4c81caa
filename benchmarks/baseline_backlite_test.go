package benchmarks

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/mikestefanello/backlite"
	"github.com/stretchr/testify/require"
)

// backliteFile is a queue of github.com/mikestefanello/backlite. As in its documentation, the
// number of connections is unlimited, and succeeded tasks are not kept.
type backliteFile struct {
	db     *sql.DB
	client *backlite.Client
}

// backliteTask is a task that does nothing: the queue's processor does it.
type backliteTask struct{ Number int }

// Config implements backlite.Task.
func (backliteTask) Config() backlite.QueueConfig {
	return backlite.QueueConfig{
		Name:        "benchmarks",
		MaxAttempts: 5,
		Backoff:     5 * time.Second,
		Timeout:     10 * time.Second,
	}
}

func startBacklite(tb testing.TB, setup durableSetup) durableQueue {
	db := openDatabase(tb, setup)
	client, err := backlite.NewClient(backlite.ClientConfig{
		DB:           db,
		NumWorkers:   setup.workers,
		ReleaseAfter: 10 * time.Minute,
	})
	require.NoError(tb, err)
	require.NoError(tb, client.Install())
	client.Register(backlite.NewQueue(func(context.Context, backliteTask) error {
		setup.run()
		return nil
	}))
	client.Start(context.WithoutCancel(tb.Context()))
	return &backliteFile{db: db, client: client}
}

func (q *backliteFile) put(ctx context.Context, jobs int) error {
	tasks := make([]backlite.Task, jobs)
	for i := range tasks {
		tasks[i] = backliteTask{Number: i}
	}
	_, err := q.client.Add(tasks...).Ctx(ctx).Save()
	return err
}

// close must be called when all jobs have run. The dispatcher then checks every 100 ms for a
// free worker. It must find one before Stop takes all workers, or it does not end.
func (q *backliteFile) close() error {
	<-time.After(300 * time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if !q.client.Stop(ctx) {
		return errors.New("the workers of backlite did not end")
	}
	return q.db.Close()
}
