package queue_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/queue/driver/postgres"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// A program that chooses its store by a flag has a driver.Driver, which is not nil when
// opening has failed, because it holds a nil pointer.
func TestCloseOfADriverThatFailedToOpenPanicked(t *testing.T) {
	for name, open := range map[string]func() (driver.Driver, error){
		"memory": func() (d driver.Driver, err error) { d, err = memory.New(memory.Options{}); return d, err },
		"sqlite": func() (d driver.Driver, err error) {
			d, err = sqlite.Open(t.Context(), sqlite.Options{})
			return d, err
		},
		"postgres": func() (d driver.Driver, err error) {
			d, err = postgres.Open(t.Context(), postgres.Options{})
			return d, err
		},
		"mongodb": func() (d driver.Driver, err error) {
			d, err = mongodb.Open(t.Context(), mongodb.Options{})
			return d, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := open()
			require.Error(t, err)
			require.NotPanics(t, func() { assert.NoError(t, d.Close(t.Context())) })
		})
	}
}
