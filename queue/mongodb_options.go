package queue

import (
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/codec"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

// MongoDBOptions configure where the jobs of a queue are stored in MongoDB, and how the
// queue reads and writes them. DefaultMongoDBOptions returns a starting point.
type MongoDBOptions struct {
	// Client is the connection to use. The caller disconnects it after the queue was
	// closed. Client or URI is required; URI is ignored if Client is set.
	Client *mongo.Client
	// URI is the address of the server, as in mongodb://localhost:27017. The queue
	// disconnects when it is closed.
	URI string
	// DB is the name of the database. It is required.
	DB string
	// Collection is the base name of the collection of the jobs, which is
	// <Collection>.jobs, or <Collection>.group if queues share it. A suffix that is
	// already present is not added again. Other data is stored in a second collection
	// whose name ends in .control. Collection is required.
	Collection string
	// UseGroups makes the queue one of several in a collection. The queues of
	// NewMongoDBSingleQueueGroup always share a collection.
	UseGroups bool
	// GroupName is the name of the queue. It is required if UseGroups is set. A group
	// ignores it: Get names the queues.
	GroupName string
	// Format is the form in which jobs are stored. amboy.BSON, the default, stores jobs of
	// definitions as JSON, and a nil slice or map of a hand-written job type as an empty one.
	// amboy.BSON2 stores all jobs as BSON, and a nil slice or map as null. All forms are
	// read with either setting. amboy.JSON is refused.
	Format amboy.Format
	// Codec encodes the arguments and results of jobs: see DriverQueueOptions.Codec. Processes
	// with the legacy library can't read such jobs. Default: none.
	Codec codec.Codec
	// CheckWaitUntil and CheckDispatchBy add to LegacyIndexes those with which the legacy library
	// queries jobs by their wait-until and dispatch-by times. With any setting, no job starts before
	// its wait-until time or after its dispatch-by time. Default: false.
	CheckWaitUntil, CheckDispatchBy bool
	// LegacyIndexes builds the indexes with which the legacy library and its tools
	// query jobs. A process with the legacy library builds them itself. They make each start
	// and end of a job more expensive: each index key that changes costs the server about as much
	// as the job's document. A plain job changes 6 after its Put, these add 18, CheckWaitUntil and
	// CheckDispatchBy 4 each, and a TTL one. Default: false.
	LegacyIndexes bool
	// LockTimeout is how long the lease of a running job lasts, and the lock of a process
	// with the legacy library. The lease is renewed every quarter of it. The job of a
	// process that died runs again within 1.25 times LockTimeout. Default:
	// amboy.LockTimeout.
	LockTimeout time.Duration
	// WaitInterval is how often a queue with a free worker asks for jobs that other
	// processes put, while the deployment sends no change notifications. A standalone
	// server never sends any. Default: one second.
	WaitInterval time.Duration
	// SampleSize is the least number of jobs among which a claim chooses. A larger number
	// makes processes that claim at once conflict less often. Default: 0, for a number
	// that grows while jobs are lost to other processes, and then shrinks.
	SampleSize int
	// TTL is how long finished jobs are kept, counted from their end, whatever their
	// outcome. A job that has not ended is never removed. It must be at least one second,
	// or 0 (the default) to keep jobs for ever.
	TTL time.Duration
	// PreferredIndexes names indexes that queries use.
	PreferredIndexes PreferredIndexOptions
	// SkipQueueIndexBuilds skips building the indexes that the queue needs, which an
	// operator then builds. A missing index is logged as an error. Default: false.
	SkipQueueIndexBuilds bool
	// SkipReportingIndexBuilds skips building the indexes that only make listing and
	// counting jobs faster. Default: false.
	SkipReportingIndexBuilds bool
}

// PreferredIndexOptions name indexes that operators want queries to use, by their keys.
// If queues share a collection, group: 1 is put before the keys unless the keys contain
// group. While no index has these keys, the query runs without the hint, and an error is
// logged once a minute. Keys without line.in, as the legacy library needed, are ignored,
// with a warning: an index on them can't find the jobs that are ready.
type PreferredIndexOptions struct {
	// NextJob is for the query that finds jobs that are ready to run. Default: none, so
	// that the server chooses the index built for it.
	NextJob bson.D
}

// DefaultMongoDBOptions returns options for the database amboy of a server on this
// machine, without LegacyIndexes. The caller must set Collection.
func DefaultMongoDBOptions() MongoDBOptions {
	return MongoDBOptions{
		URI:             "mongodb://localhost:27017",
		DB:              "amboy",
		Format:          amboy.BSON,
		CheckWaitUntil:  true,
		CheckDispatchBy: true,
		LockTimeout:     amboy.LockTimeout,
		WaitInterval:    defaultPollInterval,
	}
}

// Validate sets the defaults of LockTimeout and WaitInterval. It returns an error that
// names every field that is missing or out of range. URI is parsed only when the queue is
// made.
func (o *MongoDBOptions) Validate() error {
	err := o.validateStore()
	if o.UseGroups && o.GroupName == "" {
		err = errors.Join(err, invalidMongoDB("GroupName must be set if UseGroups is"))
	}
	return err
}

func invalidMongoDB(format string, args ...any) error {
	return fmt.Errorf("invalid MongoDB options: "+format, args...)
}

// validateStore is Validate without the check of the queue's name.
func (o *MongoDBOptions) validateStore() error {
	errs := []error{o.validateRanges()}
	missing := func(field string) { errs = append(errs, invalidMongoDB("%s must be set", field)) }
	if o.Client == nil && o.URI == "" {
		missing("Client or URI")
	}
	if o.DB == "" {
		missing("DB")
	}
	if o.Collection == "" {
		missing("Collection")
	}
	if o.LockTimeout == 0 {
		o.LockTimeout = amboy.LockTimeout
	}
	if o.WaitInterval == 0 {
		o.WaitInterval = defaultPollInterval
	}
	return errors.Join(errs...)
}

// validateRanges returns an error for each field that is out of range. Unset fields are
// in range.
func (o *MongoDBOptions) validateRanges() error {
	var errs []error
	if o.Format != amboy.BSON && o.Format != amboy.BSON2 {
		errs = append(errs, invalidMongoDB("Format must be BSON or BSON2 (is %s)", o.Format))
	}
	if err := checkLockTimeout(o.LockTimeout); err != nil {
		errs = append(errs, invalidMongoDB("%w", err))
	}
	if o.WaitInterval < 0 {
		errs = append(errs, invalidMongoDB("WaitInterval must not be negative (is %s)", o.WaitInterval))
	}
	if o.TTL != 0 && o.TTL < time.Second {
		errs = append(errs, invalidMongoDB("TTL must be 0 or at least 1s (is %s)", o.TTL))
	}
	if o.SampleSize < 0 {
		errs = append(errs, invalidMongoDB("SampleSize must not be negative (is %d)", o.SampleSize))
	}
	return errors.Join(errs...)
}

// queueName returns the name of the queue in its store.
func (o *MongoDBOptions) queueName() string {
	if o.UseGroups {
		return o.GroupName
	}
	return ""
}

// retention returns a Retention that keeps finished jobs for TTL.
func (o *MongoDBOptions) retention() Retention {
	keep := o.TTL
	if keep == 0 {
		keep = KeepForever
	}
	return Retention{Succeeded: keep, Failed: keep, Canceled: keep, Expired: keep}
}

// storeOptions returns the options for the driver.
func (o *MongoDBOptions) storeOptions() mongodb.Options {
	return mongodb.Options{
		Client:               o.Client,
		URI:                  o.URI,
		DB:                   o.DB,
		Collection:           o.Collection,
		Grouped:              o.UseGroups,
		LockTimeout:          o.LockTimeout,
		PollInterval:         o.WaitInterval,
		SkipWaitUntilIndex:   !o.CheckWaitUntil,
		SkipDispatchByIndex:  !o.CheckDispatchBy,
		LegacyIndexes:        o.LegacyIndexes,
		ClaimWindow:          o.SampleSize,
		Hint:                 o.PreferredIndexes.NextJob,
		SkipIndexes:          o.SkipQueueIndexBuilds,
		SkipReportingIndexes: o.SkipReportingIndexBuilds,
	}
}

// with returns the options, overridden by the fields that are set in change, except for
// the fields that locate the jobs, which the whole group shares.
func (o MongoDBOptions) with(change MongoDBOptions) MongoDBOptions {
	replace(&o.Format, change.Format)
	if change.Codec != nil {
		o.Codec = change.Codec
	}
	replace(&o.CheckWaitUntil, change.CheckWaitUntil)
	replace(&o.CheckDispatchBy, change.CheckDispatchBy)
	replace(&o.LegacyIndexes, change.LegacyIndexes)
	replace(&o.LockTimeout, change.LockTimeout)
	replace(&o.WaitInterval, change.WaitInterval)
	replace(&o.SampleSize, change.SampleSize)
	replace(&o.TTL, change.TTL)
	replace(&o.SkipQueueIndexBuilds, change.SkipQueueIndexBuilds)
	replace(&o.SkipReportingIndexBuilds, change.SkipReportingIndexBuilds)
	if change.PreferredIndexes.NextJob != nil {
		o.PreferredIndexes = change.PreferredIndexes
	}
	return o
}

// replace sets a field to value, unless value is the zero value.
func replace[T comparable](field *T, value T) {
	var unset T
	if value != unset {
		*field = value
	}
}

// validateChange returns an error if options of a queue of a group name another database
// than the group's, or are out of range.
func (o *MongoDBOptions) validateChange(group MongoDBOptions) error {
	errs := []error{o.validateRanges()}
	if o.Client != nil && o.Client != group.Client {
		errs = append(errs, invalidMongoDB("Client must not be set, or be that of the group"))
	}
	if o.Client == nil && o.URI != "" && o.URI != group.URI {
		errs = append(errs, invalidMongoDB("URI must not be set, or be that of the group"))
	}
	if o.DB != "" && o.DB != group.DB {
		errs = append(errs, invalidMongoDB("DB must not be set, or be that of the group, %q (is %q)", group.DB, o.DB))
	}
	return errors.Join(errs...)
}
