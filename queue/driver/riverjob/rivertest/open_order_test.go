package rivertest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver/riverjob"
)

// Two processes that name the same queues in another order waited for each other when they registered them, and the
// server ended one of them: Open failed.
func TestOpenFailedBesideAProcessThatNamesItsQueuesInAnotherOrder(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.open(func(o *riverjob.Options) { o.Queues = []string{"a", "b"} }).Close(w.ctx))
	tx, err := w.pool.Begin(w.ctx)
	require.NoError(t, err)
	touch := func(name string) error {
		_, err := tx.Exec(w.ctx, w.sql(`UPDATE {s}.river_queue SET updated_at = now() WHERE name = $1`), name)
		return err
	}
	require.NoError(t, touch("a"))
	opened := make(chan error, 1)
	go func() {
		d, err := riverjob.Open(w.ctx, riverjob.Options{
			URL: pgtest.URL(t) + "&application_name=" + w.schema, Schema: w.schema, Queues: []string{"b", "a"},
		})
		if err == nil {
			err = d.Close(w.ctx)
		}
		opened <- err
	}()
	w.eventually("the other process waits", func() bool {
		return ask[int](w, `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'`, w.schema) == 1
	})
	require.NoError(t, touch("b"))
	require.NoError(t, tx.Commit(w.ctx))
	require.NoError(t, <-opened)
}
