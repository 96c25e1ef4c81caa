package postgres_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

// looks records whether the last claim has searched for the next times.
type looks struct {
	mu   sync.Mutex
	last string
}

func (l *looks) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, q := range data.Batch.QueuedQueries {
		if strings.Contains(q.SQL, "lease_count + 1") {
			l.last = q.SQL
		}
	}
	return ctx
}

func (*looks) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (*looks) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (*looks) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (*looks) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// has reports whether the last claim has looked.
func (l *looks) has() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.last, "(first, last)")
}

// Each claim searched for the next times at which records are due, or expire. That took a fourth of its time.
func TestClaimsSearchedForTimesThatTheirProcessKnew(t *testing.T) {
	config, err := pgxpool.ParseConfig(pgtest.URL(t))
	require.NoError(t, err)
	var last looks
	config.ConnConfig.Tracer = &last
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d := open(t, postgres.Options{Pool: pool, Schema: pgtest.Schema(t)})
	claimReady := func(id string) (next time.Time) {
		t.Helper()
		insert(t.Context(), t, d, newRecord(id))
		records, next := claimAt(t, d, 10, time.Now())
		require.Equal(t, []string{id}, idsOf(records))
		return next
	}
	claimReady("first")
	assert.Zero(t, claimReady("second"))
	assert.Zero(t, claimReady("third"))
	assert.False(t, last.has())

	scheduled := newRecord("scheduled")
	scheduled.TimeInfo.WaitUntil = time.Now().Add(time.Hour)
	insert(t.Context(), t, d, scheduled)
	expiring := newRecord("expiring")
	expiring.TimeInfo.WaitUntil, expiring.TimeInfo.DispatchBy = time.Now().Add(2*time.Hour), time.Now().Add(30*time.Minute)
	insert(t.Context(), t, d, expiring)
	assert.WithinDuration(t, expiring.TimeInfo.DispatchBy, claimReady("fourth"), time.Microsecond)
	assert.False(t, last.has())

	insert(t.Context(), t, d, newRecord("fifth"))
	records, _ := claimAt(t, d, 10, time.Now().Add(90*time.Minute))
	ids := idsOf(records)
	slices.Sort(ids)
	assert.Equal(t, []string{"expiring", "fifth", "scheduled"}, ids, "their times have come")
}
