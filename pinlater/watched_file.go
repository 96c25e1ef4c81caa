package pinlater

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
)

// maxFileSize bounds the files that a server reads.
const maxFileSize = 16 << 20

// watchedFile is a file that is read again when its time and its content have changed. It is
// not safe for concurrent use.
type watchedFile struct {
	path    string
	apply   func(data []byte) error
	changed time.Time
	content []byte
	// failure is the last error that was logged.
	failure string
}

// load reads the file for the first time.
func (f *watchedFile) load() error {
	changed, data, err := f.read()
	if err == nil {
		err = f.apply(data)
	}
	if err != nil {
		return fmt.Errorf("reading %q: %w", f.path, err)
	}
	f.changed, f.content = changed, data
	return nil
}

// check reads the file again if it has changed. An error is logged once, and what was applied
// before stays.
func (f *watchedFile) check(ctx context.Context) {
	err := f.reload()
	switch {
	case err == nil:
		f.failure = ""
	case err.Error() != f.failure:
		f.failure = err.Error()
		logging.Error(ctx, message.Fields{"message": "could not reload a file; what it said before stays in force", "path": f.path, "error": f.failure})
	}
}

func (f *watchedFile) reload() error {
	info, err := os.Stat(f.path)
	if err != nil {
		return err
	}
	if info.ModTime().Equal(f.changed) {
		return nil
	}
	changed, data, err := f.read()
	if err != nil {
		return err
	}
	if !bytes.Equal(data, f.content) {
		if err := f.apply(data); err != nil {
			return err
		}
	}
	f.changed, f.content = changed, data
	return nil
}

func (f *watchedFile) read() (changed time.Time, data []byte, err error) {
	file, err := os.Open(f.path)
	if err != nil {
		return changed, nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return changed, nil, err
	}
	data, err = io.ReadAll(io.LimitReader(file, maxFileSize+1))
	if err == nil && len(data) > maxFileSize {
		err = fmt.Errorf("file must have at most %d bytes", maxFileSize)
	}
	return info.ModTime(), data, err
}
