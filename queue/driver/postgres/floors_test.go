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
