package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
)

const (
	// pollInterval is the interval between notifications if the file can't be watched.
	pollInterval = 50 * time.Millisecond
	// eventPause is the minimum interval between notifications if the file is watched.
	// Events in between are merged.
	eventPause = 8 * time.Millisecond
)

// watch reports that a database file may have changed.
type watch struct {
	files  *fsnotify.Watcher // nil if the directory can't be watched
	dir    string
	log    string // the path of the write-ahead log
	lost   bool   // the system no longer watches the directory
	notify func()
	stop   chan struct{}
	done   chan struct{}
	err    error // of closing files; set before done is closed
}

// startWatch calls notify, which must not block, after each change of a file until close is
// called.
func startWatch(ctx context.Context, path string, notify func()) *watch {
	w := &watch{
		dir:    filepath.Dir(path),
		log:    logPath(path),
		notify: notify,
		stop:   make(chan struct{}),
		done:   make(chan struct{}),
	}
	var err error
	w.files, err = watchDirectory(w.dir)
	if err != nil {
		logging.Warning(ctx, message.Fields{
			"message": "can't watch the directory of the database; checking the database at intervals",
			"path":    path,
			"error":   err.Error(),
		})
	}
	go w.run()
	return w
}

// watchDirectory returns nil on systems that watch a directory by opening each file in it:
// when such a file is closed, the process loses its locks on the database.
func watchDirectory(dir string) (*fsnotify.Watcher, error) {
	if runtime.GOOS != "linux" && runtime.GOOS != "windows" {
		return nil, nil
	}
	files, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	err = files.Add(dir)
	if err != nil {
		return nil, errors.Join(err, files.Close())
	}
	return files, nil
}

func (w *watch) run() {
	defer close(w.done)
	if w.files == nil {
		w.poll()
		return
	}
	for w.next() {
		w.notify()
		// During the pause the system merges events.
		if !w.pause(eventPause) {
			break
		}
		if w.lost {
			w.poll()
			break
		}
	}
	w.err = w.files.Close()
}

// next waits for a change. It returns false when the watch is closed.
func (w *watch) next() bool {
	for {
		select {
		case <-w.stop:
			return false
		case event := <-w.files.Events:
			if event.Name == w.log {
				return true
			}
			if event.Name == w.dir && event.Has(fsnotify.Rename|fsnotify.Remove) {
				w.lost = true
				return true
			}
		case err := <-w.files.Errors:
			// Events were lost, and one of the log may be among them.
			return err != nil
		}
	}
}

func (w *watch) poll() {
	for w.pause(pollInterval) {
		w.notify()
	}
}

// pause waits for d. It returns false when the watch is closed.
func (w *watch) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-w.stop:
		return false
	case <-timer.C:
		return true
	}
}

// close stops the watch and waits for its goroutine. It must be called once.
func (w *watch) close() error {
	close(w.stop)
	<-w.done
	return w.err
}
