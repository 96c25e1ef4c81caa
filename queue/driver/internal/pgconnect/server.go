package pgconnect

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// oldestServer is the oldest supported server version, as server_version_num: the first with
// autovacuum_vacuum_insert_scale_factor, which tables set.
const oldestServer = 130000

// ReadCommitted is the isolation level at which a statement reads what was committed before it began, and
// so before its transaction got a lock.
const ReadCommitted = "read committed"

// CheckServer returns an error if the drivers can't use the server of a pool.
func CheckServer(ctx context.Context, pool *pgxpool.Pool) error {
	var version, isolation string
	var number int
	var isStandby, isReadOnly bool
	err := pool.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('server_version_num')::integer, pg_is_in_recovery(),
		current_setting('transaction_read_only')::boolean, current_setting('default_transaction_isolation')`).Scan(&version, &number, &isStandby, &isReadOnly, &isolation)
	switch {
	case err != nil:
		return fmt.Errorf("connecting: %w", err)
	case number < oldestServer:
		return fmt.Errorf("the server has version %s; PostgreSQL %d or newer is needed", version, oldestServer/10000)
	case isStandby:
		return errors.New("the server is a standby, which takes no writes; connect to the primary (target_session_attrs=read-write)")
	case isReadOnly:
		return errors.New("the server takes no writes: default_transaction_read_only is on; turn it off for this role, or connect to another server")
	case isolation != ReadCommitted:
		return fmt.Errorf("default_transaction_isolation is %q; set it to %q for this role, or in the connection string", isolation, ReadCommitted)
	}
	return nil
}

// resetInterval is the minimum interval between resets of a pool.
const resetInterval = time.Second

// Failover replaces the connections of a pool.
type Failover struct {
	last atomic.Int64 // when the pool was reset
	left atomic.Bool  // whether Leave was called since the last call of HasArrived that returned true
}

// Leave closes the connections of a pool whose server takes no writes: after a failover, new
// connections may lead to the new primary, and those of the pool would stay with a standby.
func (f *Failover) Leave(pool *pgxpool.Pool) {
	f.left.Store(true)
	now := time.Now().UnixNano()
	last := f.last.Load()
	if now-last >= int64(resetInterval) && f.last.CompareAndSwap(last, now) {
		pool.Reset()
	}
}

// HasArrived is called after changes that were made. It returns true after the first one since Leave.
func (f *Failover) HasArrived() bool { return f.left.Load() && f.left.CompareAndSwap(true, false) }
