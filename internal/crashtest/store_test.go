package crashtest_test

import (
	"flag"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/queue/driver/postgres"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// store identifies the store of a test. It is passed to the test's processes.
type store struct {
	// Location is the path of a file, or the URI of a server.
	Location string
	// Database is a database of the server, or empty for a file.
	Database string `json:",omitempty"`
	// Schema is a schema of a PostgreSQL server, or empty for other stores.
	Schema string `json:",omitempty"`
	// KeepFinished is the number of finished jobs that a file has room for.
	KeepFinished int `json:",omitempty"`
	// connect makes the client of a database in this process. If it is nil, the driver connects.
	connect func(t *testing.T, uri string) *mongo.Client
}

// standalone adds a standalone MongoDB server, which the replica set mostly covers.
var standalone = flag.Bool("crashtest.standalone", false, "also run the tests on a standalone MongoDB server")

// stores are the kinds of stores that the tests run on.
var stores = []struct {
	name  string
	extra bool // used only with -crashtest.standalone
	make  func(t *testing.T) store
}{
	{name: "sqlite", make: newFile},
	{name: "postgres", make: newSchema},
	{name: "mongodb", make: func(t *testing.T) store { return newDatabase(mongotest.Open(t, mongotest.ReplicaSet())) }},
	{name: "mongodb standalone", extra: true, make: func(t *testing.T) store {
		return newDatabase(mongotest.Open(t, mongotest.Standalone()))
	}},
}

// newFile returns a store in a file that does not exist yet.
func newFile(t *testing.T) store { return fileIn(t.TempDir()) }

func fileIn(dir string) store {
	return store{Location: filepath.Join(dir, "jobs.db"), KeepFinished: 1_000_000}
}

// newSchema returns a store in an empty schema of a PostgreSQL server.
func newSchema(t *testing.T) store {
	return store{Location: pgtest.URL(t), Schema: pgtest.Schema(t)}
}

// newDatabase returns a store in an empty database of a deployment.
func newDatabase(d *mongotest.Deployment) store {
	return store{Location: d.URI(), Database: d.Database()}
}

// open opens the store as another process would.
func (s store) open(t *testing.T) driver.Driver {
	t.Helper()
	if s.Schema != "" {
		d, err := postgres.Open(t.Context(), postgres.Options{URL: s.Location, Schema: s.Schema})
		require.NoError(t, err)
		return d
	}
	if s.Database == "" {
		d, err := sqlite.Open(t.Context(), sqlite.Options{Path: s.Location, KeepFinished: s.KeepFinished})
		require.NoError(t, err)
		return d
	}
	opts := mongodb.Options{URI: s.Location, DB: s.Database, Collection: "crash"}
	if s.connect != nil {
		opts.Client = s.connect(t, s.Location)
	}
	d, err := mongodb.Open(t.Context(), opts)
	require.NoError(t, err)
	return d
}

// onEachStore runs a test on each kind of store. newStore returns an empty store.
func onEachStore(t *testing.T, test func(t *testing.T, newStore func(t *testing.T) store)) {
	t.Helper()
	for _, kind := range stores {
		if kind.extra && !*standalone {
			continue
		}
		t.Run(kind.name, func(t *testing.T) { test(t, kind.make) })
	}
}
