package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
)

// bootID tells the boots of the machine apart; it is empty where the system has no such
// ID. Containers on a machine have the same one.
var bootID = func() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "" // It is not Linux, or is kept from us.
	}
	return strings.TrimSpace(string(id))
}

// noteBoot ends all leases where the machine was booted since the file was opened last:
// the processes that hold them were on this machine, and are dead. A lease that has no
// end is over.
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
		return fmt.Errorf("noting in which boot of the machine the file is open: %w", err)
	}
	return nil
}

// lastBoot is the boot in which the file was opened last; empty where that is not known.
func lastBoot(ctx context.Context, conn *sql.Conn) (id string, err error) {
	err = conn.QueryRowContext(ctx, "SELECT id FROM boot").Scan(&id)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("reading in which boot of the machine the file was open: %w", err)
	}
	return id, nil
}
