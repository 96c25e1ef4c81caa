package queue

import (
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

// MongoDBOptions tell where a queue has its jobs in a MongoDB, and how it works
// with them. DefaultMongoDBOptions has a good start.
type MongoDBOptions struct {
	// Client is the connection to use. It stays the caller's, who disconnects it
	// after the queue was closed. Client or URI is required; where both are set,
	// Client counts.
	Client *mongo.Client
	// URI says where to connect to, as in mongodb://localhost:27017. The queue
	// disconnects when it is closed.
	URI string
	// DB is the name of the database. It is required.
	DB string
	// Collection names the collection of the jobs, which is <Collection>.jobs, or
	// <Collection>.group where queues share it. A suffix that is there is not
	// added again. What is no job is beside it, in a collection whose name ends in
	// .control. It is required.
	Collection string
	// UseGroups makes the queue one of several in a collection. The queues of
	// NewMongoDBSingleQueueGroup share one whether it is set or not.
	UseGroups bool
	// GroupName is the name of the queue where UseGroups is set, and then it is
	// required. In a group it is not looked at: Get names the queues.
	GroupName string
	// Format is the form in which jobs are stored: amboy.BSON, the default, stores
	// a nil slice or map of a job as an empty one, amboy.BSON2 as null. Both are
	// read whatever it is. amboy.JSON is refused.
	Format amboy.Format
	// CheckWaitUntil and CheckDispatchBy build the indexes with which processes with
	// the legacy library query jobs by their wait-until and dispatch-by times. No job
	// starts before the one or after the other, whatever they are. Default: false.
	CheckWaitUntil, CheckDispatchBy bool
	// LockTimeout is how long the lease of a running job lasts unless it is
	// renewed, which is done every quarter of it, and how long the lock of a
	// process with the former library does. The job of a process that died runs
	// again within one and a quarter of it. Default: amboy.LockTimeout.
	LockTimeout time.Duration
	// WaitInterval is how often a queue with a free worker asks for jobs that other
	// processes put, where the deployment can't tell of them, which a standalone
	// server can't, or does not at the moment. Default: one second.
	WaitInterval time.Duration
	// SampleSize is the least number of jobs among which a claim chooses, however
	// few it wants, so that many processes that claim at once get in each other's
	// way less. Default: 0, for a number that grows while jobs are lost to others,
	// and shrinks again.
	SampleSize int
	// TTL is how long jobs that ended are kept, counted from their end, whatever
	// their outcome. One that has not ended is never removed. It is at least a
	// second, or 0, the default, to keep them for ever.
	TTL time.Duration
	// PreferredIndexes has indexes that queries are to use.
	PreferredIndexes PreferredIndexOptions
	// SkipQueueIndexBuilds leaves the indexes to be built by hand that the queue
	// needs; one that is missing is logged as an error. Default: false, which builds
	// all that are missing.
	SkipQueueIndexBuilds bool
	// SkipReportingIndexBuilds leaves those to be built by hand that only listing
	// and counting jobs are faster with. Default: false.
	SkipReportingIndexBuilds bool
}

// PreferredIndexOptions name indexes that operators want queries to use, by their
// keys. Where queues share a collection, group: 1 is put before the keys unless group
// is among them. While no index has these keys, the query does without the hint, and
// an error is logged once a minute.
type PreferredIndexOptions struct {
	// NextJob is for the query that finds jobs that are ready to run. Default: none;
	// the server chooses the index that is built for it.
	NextJob bson.D
}

// DefaultMongoDBOptions has the database amboy of a server on this machine, and
// builds all indexes. Collection is to be set.
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

// Validate sets the defaults of LockTimeout and WaitInterval. It returns an error
// that names every field that is missing or out of range. Whether URI can be parsed
// shows when the queue is made.
func (o *MongoDBOptions) Validate() error {
	err := o.validateStore()
	if o.UseGroups && o.GroupName == "" {
		err = errors.Join(err, invalidMongoDB("GroupName must be set where UseGroups is"))
	}
	return err
}

func invalidMongoDB(format string, args ...any) error {
	return fmt.Errorf("invalid MongoDB options: "+format, args...)
}

// validateStore is Validate but for the name of the queue.
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

// validateRanges returns an error for each field that is out of range, set or not.
func (o *MongoDBOptions) validateRanges() error {
	var errs []error
	if o.Format != amboy.BSON && o.Format != amboy.BSON2 {
		errs = append(errs, invalidMongoDB("Format must be BSON or BSON2 (is %s)", o.Format))
	}
	for _, field := range []struct {
		name  string
		value time.Duration
	}{{"LockTimeout", o.LockTimeout}, {"WaitInterval", o.WaitInterval}} {
		if field.value < 0 {
			errs = append(errs, invalidMongoDB("%s must not be negative (is %s)", field.name, field.value))
		}
	}
	if o.TTL != 0 && o.TTL < time.Second {
		errs = append(errs, invalidMongoDB("TTL must be 0 or at least 1s (is %s)", o.TTL))
	}
	if o.SampleSize < 0 {
		errs = append(errs, invalidMongoDB("SampleSize must not be negative (is %d)", o.SampleSize))
	}
	return errors.Join(errs...)
}

// queueName is what the queue is called in its store.
func (o *MongoDBOptions) queueName() string {
	if o.UseGroups {
		return o.GroupName
	}
	return ""
}

// retention keeps jobs that ended as TTL says.
func (o *MongoDBOptions) retention() Retention {
	keep := o.TTL
	if keep == 0 {
		keep = KeepForever
	}
	return Retention{Succeeded: keep, Failed: keep, Canceled: keep, Expired: keep}
}

// storeOptions are those of the driver.
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
		ClaimWindow:          o.SampleSize,
		Hint:                 o.PreferredIndexes.NextJob,
		SkipIndexes:          o.SkipQueueIndexBuilds,
		SkipReportingIndexes: o.SkipReportingIndexBuilds,
	}
}

// with returns the options of a queue of a group where change is set; but for what
// says where the jobs are, which all of the group have in common.
func (o MongoDBOptions) with(change MongoDBOptions) MongoDBOptions {
	replace(&o.Format, change.Format)
	replace(&o.CheckWaitUntil, change.CheckWaitUntil)
	replace(&o.CheckDispatchBy, change.CheckDispatchBy)
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

// replace sets a field to a value that is set.
func replace[T comparable](field *T, value T) {
	var unset T
	if value != unset {
		*field = value
	}
}

// validateChange returns an error where options of a queue of a group ask for
// another database than that of the group, or are out of range.
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
