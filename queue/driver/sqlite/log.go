package sqlite

import (
	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
)

// SQLite copies the write-ahead log into the file when it has grown by some megabytes, and
// restarts it when all of it was copied and no process uses it. While several processes
// write without a pause, that never happens: each leaves something behind that the others
// have not copied. So a writer that finds a large log blocks the others until the log is
// empty.
const (
	// largeLog is the size in bytes from which on a log is truncated.
	largeLog = 32 << 20
	// logStep and logPause delay the next try if other processes use the log: by how many
	// bytes it may grow, and how many transactions may be made.
	logStep  = 8 << 20
	logPause = 50
)

// trimLog truncates the write-ahead log if it is large. It waits for readers for as long as
// for another process that writes.
func (w *writer) trimLog() {
	if w.logSize < largeLog {
		w.trimAt = largeLog
		return
	}
	w.trimPause--
	if w.logSize < w.trimAt && w.trimPause > 0 {
		return
	}
	inUse := false
	err := w.conn.query(emptyLog, func(r *row) error {
		inUse = r.bool()
		return nil
	})
	switch {
	case err == nil && !inUse:
		w.trimAt = largeLog
		return
	case err != nil && resultCode(err) != codeBusy:
		logging.Warning(w.ctx, message.Fields{
			"message": "could not truncate the write-ahead log of a file; trying again when it has grown",
			"path":    w.path,
			"bytes":   w.logSize,
			"error":   err.Error(),
		})
	}
	w.trimAt, w.trimPause = w.logSize+logStep, logPause
}
