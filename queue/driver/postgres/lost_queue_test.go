package postgres_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

// A failover to a replica that lacks the last commits loses queues and lines that processes remember. A Put
// of a job was refused as a duplicate then, or added a job that no claim finds.
func TestAPutAfterAQueueWasLostAddsItAgain(t *testing.T) {
	for _, lost := range []string{"queues", "lines"} {
		for _, kind := range []string{"plain", "scoped", "several"} {
			t.Run(lost+" "+kind, func(t *testing.T) {
				d, schema := openEmpty(t)
				insert(t.Context(), t, d, newRecord("lost"), scoped("lost too", 0, "scope"))
				conn := connect(t, pgtest.URL(t))
				execute(t, conn, "DELETE FROM "+schema+".jobs")
				execute(t, conn, "DELETE FROM "+schema+".lines")
				if lost == "queues" {
					execute(t, conn, "DELETE FROM "+schema+".queues")
				}
				want := []string{"job"}
				switch kind {
				case "plain":
					insert(t.Context(), t, d, newRecord("job"))
				case "scoped":
					insert(t.Context(), t, d, scoped("job", 0, "another"))
				case "several":
					want = append(want, "second")
					insert(t.Context(), t, d, newRecord("job"), newRecord("second"))
				}
				assert.Equal(t, want, idsOf(claim(t, d, 10)))
			})
		}
	}
}

// The end of an attempt was written without its next attempt, whose line was lost: the job was never run again.
func TestANextAttemptWhoseLineWasLostIsAdded(t *testing.T) {
	for _, kind := range []string{"plain", "scoped"} {
		t.Run(kind, func(t *testing.T) {
			d, schema := openEmpty(t)
			lost := newRecord("lost")
			lost.Priority = 7
			insert(t.Context(), t, d, lost, attemptOf("job", 0))
			execute(t, connect(t, pgtest.URL(t)), "DELETE FROM "+schema+".jobs WHERE job_id = 'lost'; DELETE FROM "+schema+".lines WHERE priority = 7")
			running := claim(t, d, 1)[0]
			next := attemptOf("job", 1)
			next.Priority = 7
			if kind == "scoped" {
				next.EnqueueScopes = []string{"scope"}
			}
			ended := *running
			ended.Status.Completed, ended.Status.InProgress = true, false
			errs, err := d.Complete(t.Context(), []driver.Completion{{Lease: driver.LeaseOf(running), Record: &ended, Next: next}})
			require.NoError(t, errors.Join(append(errs, err)...))
			assert.Equal(t, []string{"job"}, idsOf(claim(t, d, 10)))
		})
	}
}

// Other processes, and transactions, notice that another server has taken over.
func TestAllProcessesForgetQueuesThatAFailoverLost(t *testing.T) {
	server, err := pgtest.Start(pgtest.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Stop()) })
	opts := postgres.Options{URL: server.URL(), Schema: "amboy", PollOnly: true}
	producer, consumer := open(t, opts), open(t, opts)
	insert(t.Context(), t, producer, newRecord("lost"))
	require.Len(t, claim(t, consumer, 1), 1)
	execute(t, connect(t, server.URL()), "DELETE FROM amboy.jobs; DELETE FROM amboy.lines; DELETE FROM amboy.queues; CHECKPOINT")
	require.NoError(t, server.Kill())
	require.NoError(t, server.Run())

	tx, err := connect(t, server.URL()).Begin(t.Context())
	require.NoError(t, err)
	insert(postgres.WithTx(t.Context(), tx), t, producer, newRecord("job"))
	require.NoError(t, tx.Commit(t.Context()))
	require.Eventually(t, func() bool { // its connections are broken
		_, err := consumer.RecoverStale(t.Context())
		return err == nil
	}, 10*time.Second, 10*time.Millisecond)
	assert.Equal(t, []string{"job"}, idsOf(claim(t, consumer, 10)))
}

// A scheduled job had become ready, and the server that took over had not got that. Claims searched for jobs
// that were due later, and found it after up to 30 s.
func TestAJobThatAFailoverMadeDueAgainIsFoundAtOnce(t *testing.T) {
	server, err := pgtest.Start(pgtest.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Stop()) })
	d := open(t, postgres.Options{URL: server.URL(), Schema: "amboy", PollOnly: true})
	insert(t.Context(), t, d, newRecord("job"), newRecord("other"))
	require.Len(t, claim(t, d, 1), 1)
	due := time.Now().Add(-time.Hour).UnixNano()
	conn := connect(t, server.URL())
	execute(t, conn, fmt.Sprintf("UPDATE amboy.jobs SET place = 1, due = %d, line = -line WHERE place = 4", due))
	execute(t, conn, "CHECKPOINT") // which writes what was committed before
	require.NoError(t, server.Kill())
	require.NoError(t, server.Run())

	require.Eventually(t, func() bool { // its connections are broken
		_, err := d.RecoverStale(t.Context())
		return err == nil
	}, 10*time.Second, 10*time.Millisecond)
	assert.Len(t, claim(t, d, 1), 1)
}
