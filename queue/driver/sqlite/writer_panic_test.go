package sqlite

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
)

func TestAPanicInsideAChangeIsItsError(t *testing.T) {
	d, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "jobs.db")})
	require.NoError(t, err)
	defer func() { assert.NoError(t, d.Close(t.Context())) }()
	var callers sync.WaitGroup
	for i := range 20 {
		callers.Go(func() {
			made := false
			err := d.writer.write(t.Context(), &change{size: 1, run: func(*changes) error {
				if i%2 == 0 {
					panic("the change is broken")
				}
				made = true
				return nil
			}})
			var panicked *amboy.PanicError
			assert.Equal(t, i%2 == 0, errors.As(err, &panicked))
			assert.Equal(t, i%2 != 0, made && err == nil)
		})
	}
	callers.Wait()
}
