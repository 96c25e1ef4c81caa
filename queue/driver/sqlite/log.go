package sqlite

import (
	"os"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
)

// SQLite moves the write-ahead log into the file when it has grown by some megabytes, and
// begins it anew when all of it was moved and no process uses it. While several processes
// write without a pause that never happens: each leaves something behind that the others
// have not moved. So a writer that finds a large log keeps the others from writing until
// the log is empty.
const (
	// largeLog is the size from which on a log is emptied, in bytes.
	largeLog = 32 << 20
	// logStep is by how much a log grows further, and logPause how many transactions are
	// made, until it is tried again, if others use it.
	logStep  = 8 << 20
	logPause = 50
)

// trimLog empties the write-ahead log if it is large. It waits for readers no longer than
// for another process that writes.
func (w *writer) trimLog() {
	info, err := os.Stat(w.path + "-wal")
	if err != nil || info.Size() < largeLog {
		w.trimAt = largeLog
		return // there is no log, or it is small
	}
	w.trimPause--
	if info.Size() < w.trimAt && w.trimPause > 0 {
		return
	}
	inUse := false
	err = w.conn.query(emptyLog, func(r *row) error {
		inUse = r.bool()
		return nil
	})
	switch {
	case err == nil && !inUse:
		w.trimAt = largeLog
		return
	case err != nil && resultCode(err) != codeBusy:
		logging.Warning(w.ctx, message.Fields{
			"message": "could not empty the write-ahead log of a file; trying again when it has grown",
			"path":    w.path,
			"bytes":   info.Size(),
			"error":   err.Error(),
		})
	}
	w.trimAt, w.trimPause = info.Size()+logStep, logPause
}
