package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/postgres"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// DefaultCollection is the default of ReadOptions.Collection: that of amboy serve.
const DefaultCollection = "jobs.group"

// ReadOptions name a store to read.
type ReadOptions struct {
	// Store is "sqlite:" with a file, or the URL of a database. It is required.
	Store string
	// Database is as in Config.
	Database string
	// Collection is the collection of a MongoDB, which ends with .jobs if it has a single queue
	// and with .group if it has many. Default: DefaultCollection.
	Collection string
}

// ErrNoStore is wrapped by the error of OpenForReading if the options name no store.
var ErrNoStore = errors.New("invalid store")

// OpenForReading opens a store as it is: it makes no file, no tables and no indexes. closeStore
// must be called in the end. In MongoDB this process registers itself as long as the store is
// open.
func OpenForReading(ctx context.Context, o ReadOptions) (inspector management.Inspector, closeStore func(context.Context) error, err error) {
	scheme, rest, _ := strings.Cut(o.Store, ":") // the rest of a URL may contain a password
	o.Database, o.Collection = cmp.Or(o.Database, DefaultDatabase), cmp.Or(o.Collection, DefaultCollection)
	var store driver.Driver
	switch scheme {
	case "sqlite":
		store, err = sqlite.Open(ctx, sqlite.Options{Path: rest, SkipMigrations: true})
	case "postgres", "postgresql":
		store, err = postgres.Open(ctx, postgres.Options{URL: o.Store, Schema: o.Database, SkipMigrations: true, PollOnly: true})
	case "mongodb", "mongodb+srv":
		return openMongoDB(ctx, o)
	default:
		return nil, nil, fmt.Errorf("%w: --store must be sqlite:FILE, mongodb://… or postgres://… (begins with %q)", ErrNoStore, scheme)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("opening the store: %w", err)
	}
	inspector, err = management.NewStoreInspector(store)
	if err != nil {
		return nil, nil, errors.Join(err, store.Close(ctx))
	}
	return inspector, store.Close, nil
}

func openMongoDB(ctx context.Context, o ReadOptions) (management.Inspector, func(context.Context) error, error) {
	isGroup := strings.HasSuffix(o.Collection, ".group")
	if !isGroup && !strings.HasSuffix(o.Collection, ".jobs") {
		return nil, nil, fmt.Errorf("%w: --collection must end with .jobs or .group (is %q)", ErrNoStore, o.Collection)
	}
	name := strings.TrimSuffix(strings.TrimSuffix(o.Collection, ".group"), ".jobs")
	opts := queue.DefaultMongoDBOptions()
	opts.URI, opts.DB, opts.Collection, opts.SkipQueueIndexBuilds = o.Store, o.Database, name, true
	// The store is open until it is closed; ctx only bounds how long opening it takes.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	inspector, err := management.NewDBInspector(life, management.DBQueueManagerOptions{Options: opts, ByGroups: isGroup})
	isOver := !stop()
	switch {
	case isOver && err != nil:
		return nil, nil, fmt.Errorf("opening the store: %w (%s)", context.Cause(ctx), err.Error())
	case isOver: // it closes itself
		return nil, nil, fmt.Errorf("opening the store: %w", context.Cause(ctx))
	case err != nil:
		end()
		return nil, nil, fmt.Errorf("opening the store: %w", err)
	}
	closing := inspector.(interface{ Close(context.Context) error }) // documented by NewDBInspector
	return inspector, func(ctx context.Context) error {
		defer end()
		return closing.Close(ctx)
	}, nil
}
