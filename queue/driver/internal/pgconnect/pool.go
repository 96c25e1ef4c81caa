// Package pgconnect opens the connections of the drivers that use PostgreSQL, and does not wait for those
// that are dead without an error, for instance because a firewall dropped them. The system gives up such a
// connection only after minutes.
package pgconnect

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// pingTime bounds the time that a pool takes to check a connection that was idle. Without it, a call spends
// all its time with the first of several dead ones.
const pingTime = 2 * time.Second

// Pool opens a pool. With pollOnly its connections keep no prepared statements, as behind a pooler in
// transaction mode.
func Pool(ctx context.Context, url string, pollOnly bool) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("invalid URL: it must be a connection string such as postgres://user@host:5432/database: %w", err)
	}
	if config.PingTimeout == 0 {
		config.PingTimeout = pingTime
	}
	if pollOnly {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	return pgxpool.NewWithConfig(ctx, config)
}

// Connect opens a connection like those of a pool, which does not count it.
func Connect(ctx context.Context, pool *pgxpool.Pool) (*pgx.Conn, error) {
	config := pool.Config()
	conn, err := connect(ctx, config)
	if err != nil || config.AfterConnect == nil {
		return conn, err
	}
	if err = config.AfterConnect(ctx, conn); err != nil { // it may set a role
		_ = conn.Close(context.WithoutCancel(ctx)) // The error of the hook is returned.
		return nil, err
	}
	return conn, nil
}

func connect(ctx context.Context, config *pgxpool.Config) (*pgx.Conn, error) {
	if config.BeforeConnect != nil { // it may set a password that expires
		if err := config.BeforeConnect(ctx, config.ConnConfig); err != nil {
			return nil, err
		}
	}
	return pgx.ConnectConfig(ctx, config.ConnConfig)
}

// RollbackTime is how long Rollback takes at most.
const RollbackTime = time.Second

// Rollback rolls a transaction back, even if ctx has ended; after a commit it does nothing. It fails only if
// the connection is closed, as it is if the server does not answer; the server then rolls the transaction
// back.
func Rollback(ctx context.Context, tx pgx.Tx) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), RollbackTime)
	defer cancel()
	_ = tx.Rollback(bounded)
}
