// Package filewatch reads files again when they have changed.
package filewatch

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
)

// MaxSize is the maximum size of a file.
const MaxSize = 16 << 20

// Files are files that belong together, such as a certificate and its key. It is not safe for
// concurrent use.
type Files struct {
	Paths []string
	// Apply is called with the contents of the files, in the order of Paths. If it returns an
	// error, what it applied before must stay in force.
	Apply func(contents [][]byte) error

	contents [][]byte
	failure  string
}

// Load reads the files for the first time.
func (f *Files) Load() error {
	_, err := f.Check()
	return err
}

// Check reads the files, and applies their contents if they have changed. changed is true if
// they were applied. The error names the file, or the files; as long as the reason stays the
// same it is returned only once.
func (f *Files) Check() (changed bool, err error) {
	changed, err = f.check()
	if err == nil {
		f.failure = ""
		return changed, nil
	}
	if err.Error() == f.failure {
		return false, nil
	}
	f.failure = err.Error()
	return false, err
}

func (f *Files) check() (changed bool, err error) {
	contents := make([][]byte, len(f.Paths))
	for i, path := range f.Paths {
		if contents[i], err = read(path); err != nil {
			return false, fmt.Errorf("reading %q: %w", path, err)
		}
	}
	if slices.EqualFunc(contents, f.contents, bytes.Equal) {
		return false, nil
	}
	if err = f.Apply(contents); err != nil {
		return false, fmt.Errorf("reading %q: %w", f.Paths, err)
	}
	f.contents = contents
	return true, nil
}

func read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	content, err := io.ReadAll(io.LimitReader(file, MaxSize+1))
	if err == nil && len(content) > MaxSize {
		err = fmt.Errorf("file must have at most %d bytes", MaxSize)
	}
	return content, err
}
