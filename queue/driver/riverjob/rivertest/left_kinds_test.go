package rivertest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/riverjob"
)

// claimKnown claims jobs of all kinds but "unknown".
func claimKnown(w *world, d *riverjob.Driver, limit int) []*driver.Record {
	w.t.Helper()
	claimed, err := d.Claim(w.ctx, driver.ClaimRequest{
		Owner: "me", Queues: []driver.Demand{{Queue: "default", Limit: limit}}, Limit: limit, Now: time.Now(), LeaseTime: time.Minute,
		Except: []driver.Kind{{Type: "unknown"}},
	})
	require.NoError(w.t, err)
	return claimed.Records
}

// Clients put jobs of a kind that no process knows yet. Each claim read all of them.
func TestAFloodOfAnUnknownKindSlowedEachClaim(t *testing.T) {
	for name, change := range map[string]func(*riverjob.Options){
		"that claims leave":      func(*riverjob.Options) {},
		"that is not among some": func(o *riverjob.Options) { o.Kinds = []string{"known"} },
	} {
		t.Run(name, func(t *testing.T) {
			const claims = 50
			w := newWorld(t)
			w.exec(`INSERT INTO {s}.river_job (args, kind, max_attempts, scheduled_at) SELECT '{}', 'unknown', 25, now() - interval '1 hour' FROM generate_series(1, $1)`, *others)
			w.exec(`INSERT INTO {s}.river_job (args, kind, max_attempts, priority, scheduled_at) SELECT '{}', 'known', 25, 1 + n % 2, now() - interval '1 minute' FROM generate_series(1, $1) n`, claims/2)
			before := w.tuplesRead(w.counting())
			d := w.counting(change)
			for i := range claims {
				if i >= claims/2 { // some come while others wait
					w.insert(pythonJob{kind: "known"})
				}
				require.Len(t, claimKnown(w, d, 1), 1)
			}
			perClaim := (w.tuplesRead(d) - before) / claims
			t.Logf("%d rows and index entries read a claim", perClaim)
			assert.Less(t, perClaim, *others/10)
		})
	}
}

// Beside jobs that claims leave, others are found wherever they come in the order.
func TestJobsBesideThoseOfAnUnknownKindAreFound(t *testing.T) {
	w := newWorld(t)
	d := w.open()
	w.insert(pythonJob{kind: "unknown"})
	empty := func() { require.Empty(t, claimKnown(w, d, 10)) }
	found := func(id int64) driver.Lease {
		t.Helper()
		claimed := claimKnown(w, d, 10)
		require.Len(t, claimed, 1)
		require.Equal(t, fmt.Sprint(id), claimed[0].JobID())
		return driver.LeaseOf(claimed[0])
	}
	old := func() int64 {
		return ask[int64](w, `INSERT INTO {s}.river_job (args, kind, max_attempts, scheduled_at, priority) VALUES ('{}', 'known', 25, now() - interval '1 hour', 4) RETURNING id`)
	}
	first := old()
	lease := found(first)
	empty()

	// What was handed back, and what an operator released.
	_, err := d.Release(w.ctx, []driver.HandBack{{Lease: lease}})
	require.NoError(t, err)
	lease = found(first)
	empty()
	_, err = d.Release(w.ctx, []driver.HandBack{{Lease: lease, Park: true}})
	require.NoError(t, err)
	empty()
	acted, err := d.Act(w.ctx, driver.ActRequest{Action: driver.Action{Kind: driver.Unpark}, Limit: 10})
	require.NoError(t, err)
	require.Equal(t, 1, acted.Done)
	found(first)
	empty()

	// What came while the queue was paused.
	changes := make(chan bool, 100)
	defer d.Subscribe(func(c driver.Change) {
		if c.InOneQueue {
			changes <- true
		}
	})()
	require.NoError(t, w.client().QueuePause(w.ctx, "default", nil))
	<-changes
	paused := old()
	empty()
	require.NoError(t, w.client().QueueResume(w.ctx, "default", nil))
	<-changes
	found(paused)
	empty()

	// What a client inserts with a clock that is behind, and what becomes due.
	w.insert(pythonJob{kind: "known", priority: 2})
	require.Len(t, claimKnown(w, d, 10), 1)
	behind := ask[int64](w, `INSERT INTO {s}.river_job (args, kind, max_attempts, scheduled_at) VALUES ('{}', 'known', 25, now() - interval '1 second') RETURNING id`)
	found(behind)
	due := w.insert(pythonJob{kind: "known", scheduledAt: time.Now().Add(-time.Hour)})
	found(due)

	// Even what nothing announces is found after a time.
	late := old()
	w.eventually("a job with a time long past is claimed", func() bool { return len(claimKnown(w, d, 10)) == 1 })
	w.await(late, "running")
}
