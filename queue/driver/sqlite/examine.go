package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

var _ driver.Examiner = (*Driver)(nil)

const (
	// hugeLog is the size in bytes from which a write-ahead log is too large. A writer truncates
	// it at largeLog, unless a reader keeps it.
	hugeLog = 2 * largeLog
	// muchFree is the number of bytes from which free pages are bloat, if they are more than
	// half of the file.
	muchFree = 64 << 20
	// examined is the number of running records, oldest first, of which the expired are found.
	examined = "1000"
)

const (
	readIndexes = `SELECT name FROM sqlite_schema WHERE type = 'index'`
	readPages   = `SELECT (SELECT page_count FROM pragma_page_count), (SELECT freelist_count FROM pragma_freelist_count),
		(SELECT page_size FROM pragma_page_size)`
	// A lease without an end ended with a boot. NOT IN repeats the condition of the index jobs_place,
	// without which SQLite does not use it.
	readExpired = `SELECT (SELECT name FROM queues WHERE id = first.queue), job_id, owner, lease_until, mod_time
		FROM (SELECT * FROM jobs WHERE place = 6 AND place NOT IN (4, 8) ORDER BY seq LIMIT ` + examined + `) AS first
		WHERE coalesce(lease_until, mod_time) < ? ORDER BY coalesce(lease_until, mod_time)`
)

// indexText finds the statements of the migrations that make indexes.
var indexText = regexp.MustCompile(`(?s)CREATE (?:UNIQUE )?INDEX (\w+) ON .*?;`)

// Examine implements driver.Examiner. It reads the schema and the header of the file, and the
// size of the write-ahead log.
func (d *Driver) Examine(ctx context.Context) (driver.Condition, error) {
	condition := driver.Condition{SharesClock: true, Bounded: true}
	missing, err := d.missingIndexes(ctx)
	if err == nil {
		condition.Defects = append(condition.Defects, missing...)
		err = d.examineSize(ctx, &condition)
	}
	if err == nil {
		condition.Expired, err = d.expired(ctx, time.Now())
	}
	if err != nil {
		return driver.Condition{}, fmt.Errorf("examining %q: %w", d.path, err)
	}
	return condition, nil
}

// expired returns the expired leases. Leases last as long as the last renewal asked for.
func (d *Driver) expired(ctx context.Context, now time.Time) (leases []driver.ExpiredLease, err error) {
	err = d.reads.query(ctx, readExpired, func(r *row) error {
		l := driver.ExpiredLease{Queue: r.text(), JobID: r.text(), Owner: r.text(), Ended: table.TimeOf(r.time())}
		renewed := table.TimeOf(r.time())
		late := now.Sub(l.Ended) > driver.ExpiredGrace(l.Ended.Sub(renewed))
		if l.Ended.IsZero() {
			late = now.Sub(renewed) > driver.ExpiredGrace(amboy.LockTimeout)
		}
		if late && len(leases) < driver.MaxExpired {
			leases = append(leases, l)
		}
		return nil
	}, table.InstantOf(now.Add(-driver.ExpiredGrace(0))))
	if err != nil {
		return nil, fmt.Errorf("reading expired leases: %w", err)
	}
	return leases, nil
}

func (d *Driver) missingIndexes(ctx context.Context) (missing []driver.Defect, err error) {
	var present []string
	err = d.reads.query(ctx, readIndexes, func(r *row) error {
		present = append(present, r.text())
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the indexes: %w", err)
	}
	for _, step := range migrations {
		for _, index := range indexText.FindAllStringSubmatch(step.text, -1) {
			if slices.Contains(present, index[1]) {
				continue
			}
			missing = append(missing, driver.Defect{
				Kind:    driver.MissingIndex,
				Name:    index[1],
				Detail:  "The index " + index[1] + " does not exist.",
				Remedy:  "Stop the services that use the file, make a backup, and make the index with SQLite.",
				Command: index[0],
			})
		}
	}
	return missing, nil
}

func (d *Driver) examineSize(ctx context.Context, condition *driver.Condition) error {
	var pages, free, pageSize int64
	err := d.reads.query(ctx, readPages, func(r *row) error {
		pages, free, pageSize = r.integer(), r.integer(), r.integer()
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading the size of the file: %w", err)
	}
	if free*pageSize >= muchFree && 2*free > pages {
		condition.Defects = append(condition.Defects, driver.Defect{
			Kind:    driver.Bloat,
			Name:    filepath.Base(d.path),
			Detail:  fmt.Sprintf("%d of the %d MB of the file are free.", free*pageSize>>20, pages*pageSize>>20),
			Remedy:  "New jobs will use the space. To give it back to the system, stop the services that use the file, and let SQLite rebuild it.",
			Command: "VACUUM;",
		})
	}
	log := d.path + "-wal"
	info, err := os.Stat(log)
	switch {
	case errors.Is(err, fs.ErrNotExist): // nothing was written since the file was last closed
	case err != nil:
		return fmt.Errorf("reading the size of the write-ahead log: %w", err)
	case info.Size() >= hugeLog:
		condition.Defects = append(condition.Defects, driver.Defect{
			Kind:   driver.LargeLog,
			Name:   filepath.Base(log),
			Detail: fmt.Sprintf("The write-ahead log has %d MB, though it is truncated at 32 MB, unless it is in use.", info.Size()>>20),
			Remedy: "Find the program that reads the file in a transaction that does not end, such as an open SQLite shell or a backup, and end it. If there is none, the log is left from one: it shrinks when the last process closes the file.",
		})
	}
	return nil
}
