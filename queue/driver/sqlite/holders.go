package sqlite

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
)

// A lease whose owner is a process that has died does not have to run out. A driver that claims for its own
// process locks one byte of a file beside the database, its slot, and keeps a row in the table
// holders that names it. The system frees the lock however the process ends. A row
// whose slot is free proves that the owner is dead, as long as both drivers have the same file open:
// one that was deleted and made anew proves nothing. SQLite relies on locks of the same kind.

// lockPath returns the path of the file with the slots of a database.
func lockPath(path string) string { return path + "-lock" }

// holders is the slots of a driver, and its view of those of others.
type holders struct {
	path     string
	file     *os.File // nil if this driver can't lock slots
	identity string   // of the file

	mu   sync.Mutex
	rows map[string]*holder
	// failed is true if this driver can lock no slots, or does not see the locks of others.
	failed bool
}

// holder is a row of the table holders.
type holder struct {
	owner string
	slot  int64
	file  string // the identity of the file with the slot
	// written is true if the file has the row. It is used in rows of this driver only.
	written bool
}

// errNoSlots is the error on a system without such locks.
var errNoSlots = errors.New("this system has no locks that end with an open file")

// openHolders opens the file with the slots of a database. If it can't be opened, leases end by
// observation only.
func openHolders(ctx context.Context, database string) *holders {
	h := &holders{path: lockPath(database), rows: map[string]*holder{}}
	var err error
	h.file, err = openSlots(h.path, database)
	if err == nil {
		h.identity, err = fileIdentity(h.file)
	}
	if err != nil {
		h.fail(ctx, err)
	}
	return h
}

// rowOf returns the row that the next claim of an owner writes; nil if an earlier claim has written
// it, or if the system has no such locks.
func (h *holders) rowOf(ctx context.Context, owner string) *holder {
	h.mu.Lock()
	defer h.mu.Unlock()
	row := h.rows[owner]
	if row == nil && !h.failed {
		row = h.hold(ctx, owner)
	}
	if row == nil || row.written {
		return nil
	}
	return row
}

// hold locks a slot for an owner; nil if that is not possible. The caller holds the lock.
func (h *holders) hold(ctx context.Context, owner string) *holder {
	row := &holder{owner: owner, slot: rand.Int64N(1 << 62), file: h.identity} //nolint:gosec // It is no secret.
	if err := lockSlot(h.file, row.slot); err != nil {
		h.fail(ctx, err)
		return nil
	}
	h.rows[owner] = row
	return row
}

// fail makes leases end by observation only.
func (h *holders) fail(ctx context.Context, err error) {
	h.failed = true
	if errors.Is(err, errNoSlots) {
		return
	}
	logging.Warning(ctx, message.Fields{
		"message": "it is unknown which other processes live; jobs of one that dies are recovered when their leases end",
		"path":    h.path,
		"error":   err.Error(),
	})
}

// wrote records that a row was written, if there is one.
func (h *holders) wrote(row *holder) {
	if row == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	row.written = true
}

// classify finds the rows whose owners are dead, and those that prove nothing.
func (h *holders) classify(ctx context.Context, rows []holder) (dead, void []holder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failed {
		return nil, nil
	}
	for _, row := range rows {
		if own := h.rows[row.owner]; own != nil && own.slot == row.slot {
			continue
		}
		if row.file != h.identity {
			void = append(void, row)
			continue
		}
		locked, err := isLocked(h.file, row.slot)
		if err != nil {
			h.fail(ctx, err)
			return nil, nil
		}
		if !locked {
			dead = append(dead, row)
		}
	}
	return dead, void
}

// own returns the rows of this driver.
func (h *holders) own() (rows []holder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, row := range h.rows {
		rows = append(rows, *row)
	}
	return rows
}

// close frees the slots.
func (h *holders) close() error {
	if h.file == nil {
		return nil
	}
	return h.file.Close()
}

// leasesOfDead returns the leases of dead owners, and the rows to remove when these are
// handed back: the rows of dead owners, and rows that prove nothing.
func (d *Driver) leasesOfDead(ctx context.Context) (over []lease, outdated []holder, err error) {
	var rows []holder
	err = d.reads.query(ctx, readHolders, func(r *row) error {
		rows = append(rows, holder{owner: r.text(), slot: r.integer(), file: r.text()})
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	dead, void := d.holders.classify(ctx, rows)
	for i := range dead {
		err = d.reads.query(ctx, readLeasesOf, func(r *row) error {
			l := readLease(r)
			l.dead = &dead[i]
			over = append(over, l)
			return nil
		}, dead[i].owner)
		if err != nil {
			return nil, nil, err
		}
	}
	return over, slices.Concat(dead, void), nil
}

// forgetHolders removes rows.
func (d *Driver) forgetHolders(ctx context.Context, rows []holder) error {
	if len(rows) == 0 {
		return nil
	}
	return d.writer.write(ctx, &change{size: len(rows), run: func(c *changes) error {
		for _, row := range rows {
			if _, err := c.exec(dropHolder, row.owner, row.slot); err != nil {
				return err
			}
		}
		return nil
	}})
}

// retireTime is how long closing waits for the right to remove the rows of the driver.
const retireTime = time.Second

// retire removes the rows of the driver. Its process lives on, so a run that has not returned keeps
// its lease until that runs out.
func (d *Driver) retire() {
	ctx, cancel := context.WithTimeout(context.Background(), retireTime)
	defer cancel()
	if err := d.forgetHolders(ctx, d.holders.own()); err != nil {
		logging.Warning(ctx, message.Fields{
			"message": "could not record that the file was closed; jobs that have not returned may be recovered before their leases end",
			"path":    d.path,
			"error":   err.Error(),
		})
	}
}

// addHolder writes a row, if there is one.
func (c *changes) addHolder(h *holder) error {
	if h == nil {
		return nil
	}
	_, err := c.exec(addHolder, h.owner, h.slot, h.file)
	return err
}

// hasHolder reports whether a row still exists. It does not if its owner has written another since.
func (c *changes) hasHolder(h *holder) (found bool, err error) {
	err = c.query(findHolder, func(*row) error {
		found = true
		return nil
	}, h.owner, h.slot)
	return found, err
}
