package mongodb

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
)

// The defaults of Options fields.
const (
	DefaultLockTimeout  = 10 * time.Minute
	DefaultPollInterval = time.Second
)

// The suffixes of the collections' names.
const (
	jobsSuffix    = ".jobs"
	groupSuffix   = ".group"
	controlSuffix = ".control"
	notesSuffix   = ".notes"
)

// Options describes the collection of a Driver and how it is used.
type Options struct {
	// Client is a connected client, which the caller must close. If it is nil, the driver
	// connects to URI, and disconnects when it is closed.
	Client *mongo.Client
	// URI is the connection string, used if Client is nil. Its credentials never appear
	// in errors or log messages.
	URI string
	// DB is the name of the database. It must not be empty.
	DB string
	// Collection is the name of the collection. It must not be empty. The suffix ".jobs",
	// or ".group" if the store is Grouped, is added unless the name ends with it.
	Collection string
	// Grouped makes the collection a store of many queues. Otherwise it holds a single
	// queue, whose name is empty.
	Grouped bool
	// LockTimeout is how long a lock lasts that a process with the legacy library took
	// and has not renewed. 0 means DefaultLockTimeout; it must not be negative.
	LockTimeout time.Duration
	// PollInterval is how often subscribers are called while a change stream is broken.
	// On a deployment without change streams it is how often the driver reads which queues
	// are draining. 0 means DefaultPollInterval; it must not be negative.
	PollInterval time.Duration
	// LegacyIndexes makes Open and EnsureIndexes build the indexes with which the legacy
	// library and its tools query jobs. A process with the legacy library builds them itself.
	// They make each start and end of a job more expensive.
	LegacyIndexes bool
	// SkipWaitUntilIndex and SkipDispatchByIndex leave out those of LegacyIndexes that serve
	// queries by these times.
	SkipWaitUntilIndex, SkipDispatchByIndex bool
	// ClaimWindow is the minimum number of candidates that a claim chooses from. 0 means
	// as many as it may claim, and more while other processes claim them first; it must
	// not be negative.
	ClaimWindow int
	// Hint holds the keys of the index to use for the query for candidates. If it is
	// empty, the server chooses. In a Grouped store, group: 1 is put before the keys
	// unless group is among them. While no index has these keys, claims run without the
	// hint, and an error is logged once a minute. A hint without line.in, such as that of a
	// service of the legacy library, is ignored, with a warning.
	Hint bson.D
	// SkipIndexes keeps Open from building indexes. Missing indexes are logged. The index
	// of the notes is built anyway, before the first note is written.
	SkipIndexes bool
	// SkipReportingIndexes keeps Open and EnsureIndexes from building the indexes that
	// only operators and their tools use.
	SkipReportingIndexes bool
}

// withDefaults checks the options and fills in the defaults.
func (o Options) withDefaults() (Options, error) {
	refuse := func(format string, args ...any) (Options, error) {
		return o, fmt.Errorf("invalid mongodb driver options: "+format, args...)
	}
	switch {
	case o.Client == nil && o.URI == "":
		return refuse("Client or URI must be set")
	case o.DB == "":
		return refuse("DB must not be empty")
	case strings.ContainsAny(o.DB, "/\\. \"$\x00"):
		return refuse(`DB must not contain any of / \ . " $, a space or a NUL (is %q)`, o.DB)
	case o.Collection == "":
		return refuse("Collection must not be empty")
	case strings.ContainsAny(o.Collection, "$\x00"):
		return refuse("Collection must not contain $ or a NUL (is %q)", o.Collection)
	case o.LockTimeout < 0:
		return refuse("LockTimeout must not be negative (is %s)", o.LockTimeout)
	case o.PollInterval < 0:
		return refuse("PollInterval must not be negative (is %s)", o.PollInterval)
	case o.ClaimWindow < 0:
		return refuse("ClaimWindow must not be negative (is %d)", o.ClaimWindow)
	}
	if o.LockTimeout == 0 {
		o.LockTimeout = DefaultLockTimeout
	}
	if o.PollInterval == 0 {
		o.PollInterval = DefaultPollInterval
	}
	if o.Grouped {
		o.Hint = groupedHint(o.Hint)
	}
	return o, nil
}

// errURI stands for the client library's own error, which may quote a password.
var errURI = errors.New("cannot be parsed; the details are omitted because they may contain a password")

// collection returns the full name of the jobs' collection.
func (o Options) collection() string {
	suffix := jobsSuffix
	if o.Grouped {
		suffix = groupSuffix
	}
	return strings.TrimSuffix(o.Collection, suffix) + suffix
}
