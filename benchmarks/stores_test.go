//go:build unix

package benchmarks

import (
	"cmp"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
	memorydriver "github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/queue/driver/postgres"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// storesFor returns functions that open each kind of store. That of SQLite opens file or, if that is
// empty, a new one. MongoDB is the stand-in.
func storesFor(file string) map[string]func(*testing.B) driver.Driver {
	return map[string]func(*testing.B) driver.Driver{
		"memory": func(b *testing.B) driver.Driver {
			store, err := memorydriver.New(memorydriver.Options{KeepFinished: 1000})
			require.NoError(b, err)
			return store
		},
		"sqlite": func(b *testing.B) driver.Driver {
			path := cmp.Or(file, filepath.Join(b.TempDir(), "jobs.db"))
			store, err := sqlite.Open(b.Context(), sqlite.Options{Path: path})
			require.NoError(b, err)
			return store
		},
		"postgres": func(b *testing.B) driver.Driver {
			server, err := pgtest.Start(pgtest.Options{})
			if err != nil {
				b.Skip(err)
			}
			b.Cleanup(func() { require.NoError(b, server.Stop()) })
			store, err := postgres.Open(b.Context(), postgres.Options{URL: server.URL()})
			require.NoError(b, err)
			return store
		},
		"mongodb": func(b *testing.B) driver.Driver {
			d := mongotest.Open(b)
			store, err := mongodb.Open(b.Context(), mongodb.Options{URI: d.URI(), DB: d.Database(), Collection: "benchmark", Grouped: true})
			require.NoError(b, err)
			return store
		},
	}
}
