package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

// lockTimeouts counts the statements that waited too long for a lock.
type lockTimeouts struct {
	roundTrips
	n atomic.Int64
}

func (l *lockTimeouts) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	var refused *pgconn.PgError
	if errors.As(data.Err, &refused) && refused.Code == "55P03" {
		l.n.Add(1)
	}
}

// While a transaction that had put a job stayed open, claims tried every 5 ms to raise the floor of
// the queue's line, and other inserts waited behind each try.
func TestInsertsWaitedAllTheTimeBehindTriesToRaiseAFloor(t *testing.T) {
	var waits lockTimeouts
	d := openWith(t, &waits)
	var records []*driver.Record
	for i := range 5000 {
		records = append(records, newRecord(fmt.Sprint(i)))
	}
	insert(t.Context(), t, d, records...)
	insert(postgres.WithTx(t.Context(), beginTx(t)), t, d, newRecord("in an open transaction"))
	claim(t, d, 1000)
	begun, before := time.Now(), waits.n.Load()
	for waits.n.Load() < before+7 && t.Context().Err() == nil {
		claim(t, d, 1)
	}
	assert.Greater(t, time.Since(begun), 300*time.Millisecond)
}

// Jobs that became ready in one transaction had the same place among the late ones, so the floor stayed behind all of
// them, and claims read the entries of those that had been taken.
func TestClaimsReadAllJobsThatHadBecomeReadyTogether(t *testing.T) {
	const jobs, atOnce = 10_000, 100
	conn, schema := connect(t, pgtest.URL(t)), pgtest.Schema(t)
	opts := postgres.Options{URL: pgtest.URL(t) + "&application_name=" + schema, Schema: schema}
	d := open(t, opts)
	records := make([]*driver.Record, jobs)
	for i := range records {
		records[i] = newRecord(fmt.Sprint(i))
		records[i].TimeInfo.WaitUntil = time.Now().Add(time.Hour + time.Duration(i)*time.Microsecond)
	}
	other := newRecord("of another priority")
	other.Priority, other.TimeInfo.WaitUntil = 1, time.Now().Add(24*time.Hour)
	insert(t.Context(), t, d, append(records, other)...)
	execute(t, conn, "UPDATE "+schema+".jobs SET due = due - 7200000000000")
	execute(t, conn, "UPDATE "+schema+".lines SET low = (SELECT last_value + 1 FROM "+schema+".arrivals)")
	release := holdSnapshot(t, schema, jobs+1)
	readBefore := tuplesRead(t, conn, d, schema, "jobs")

	d = open(t, opts)
	for n := 0; n < jobs; {
		n += len(claimUpTo(t, d, time.Now(), "", atOnce).Records)
	}
	read := tuplesRead(t, conn, d, schema, "jobs") - readBefore
	t.Logf("%d rows and index entries read a job", read/jobs)
	assert.Less(t, read, 80*jobs)
	release()
}
