package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
)

// bootID identifies the current boot of the machine; it is empty if the system has no such
// ID. Containers on one machine have the same ID.
var bootID = func() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "" // not Linux, or not readable
	}
	return strings.TrimSpace(string(id))
}

// noteBoot ends all leases if the machine was rebooted since the file was last opened:
// their owners were processes of this machine, and are dead. A lease without an end is
// over.
func noteBoot(ctx context.Context, conn *sql.Conn) error {
	current := bootID()
	last, err := lastBoot(ctx, conn)
	if err != nil || last == current {
		return err
	}
	err = inTransaction(ctx, conn, func() error {
		last, failure := lastBoot(ctx, conn) // Another process may have been first.
		if failure != nil || last == current {
			return failure
		}
		if last != "" && current != "" {
			_, failure = conn.ExecContext(ctx, "UPDATE jobs SET lease_until = NULL WHERE place = 6 AND place NOT IN (4, 8)")
			if failure == nil {
				_, failure = conn.ExecContext(ctx, "DELETE FROM holders")
			}
			if failure != nil {
				return failure
			}
		}
		_, failure = conn.ExecContext(ctx, "DELETE FROM boot")
		if failure == nil {
			_, failure = conn.ExecContext(ctx, "INSERT INTO boot (id) VALUES (?)", current)
		}
		return failure
	})
	if err != nil {
		return fmt.Errorf("recording the boot ID: %w", err)
	}
	return nil
}

// lastBoot returns the ID of the boot in which the file was last opened; empty if unknown.
func lastBoot(ctx context.Context, conn *sql.Conn) (id string, err error) {
	err = conn.QueryRowContext(ctx, "SELECT id FROM boot").Scan(&id)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("reading the last boot ID: %w", err)
	}
	return id, nil
}
