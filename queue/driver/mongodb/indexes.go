package mongodb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mongodb/grip/message"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy/internal/logging"
)

// use is the purpose of an index.
type use int

const (
	hot       use = iota // claims, completions, and uniqueness
	legacy               // processes with the legacy library
	reporting            // operators and their tools
)

// index is an index of the jobs' collection.
type index struct {
	name   string
	keys   bson.D
	unique bool
	// partial is the filter for the indexed documents. If it is empty, all are indexed.
	partial bson.D
	use     use
	// everywhere omits the queue's name from the keys, for queries over all queues.
	everywhere bool
}

func ascending(fields ...string) bson.D {
	keys := make(bson.D, len(fields))
	for i, field := range fields {
		keys[i] = bson.E{Key: field, Value: 1}
	}
	return keys
}

func exists(path string) bson.D { return field(path, exist(true)) }

// inRank lists the fields that order the waiters for one thing, beginning with the first
// to run.
var inRank = bson.D{{Key: "line.priority", Value: -1}, {Key: "line.order", Value: 1}}

// indexes returns the indexes of the jobs' collection. A change of a document costs the more
// the more keys of indexes it changes. So an index that holds what changes when a job runs or
// ends is partial: a job that starts leaves those of the waiting jobs, and one that ends
// leaves those of the running ones. Names and keys must differ from those of the legacy
// library, which would otherwise fail to build its own.
func (o Options) indexes() []index {
	all := []index{
		{ // candidates in their order, queues with work, counts, documents without a line
			name:    "next_job",
			keys:    append(ascending("status.completed", "status.in_prog", "line.in"), inRank...),
			partial: waiting,
		},
		{ // the ready jobs of each kind
			name:    "next_job_of_kind",
			keys:    append(ascending("status.completed", "status.in_prog", "line.in", "line.kind"), inRank...),
			partial: field("line.in", inReady),
		},
		// What is due or expired, and when the next is; waits made too long by a clock that was ahead.
		{name: "due", keys: ascending("line.due"), partial: exists("line.due"), everywhere: true},
		{name: "since", keys: ascending("line.since"), partial: exists("line.since"), everywhere: true},
		{name: "expires", keys: ascending("line.expires"), partial: exists("line.expires"), everywhere: true},
		// The first in line for a scope, and ready jobs that want a scope that was taken.
		{name: "scope_line", keys: append(ascending("line.scope"), inRank...), partial: exists("line.scope")},
		{name: "wanted_scopes", keys: ascending("line.wants", "line.in"), partial: exists("line.wants")},
		// The jobs that wait for a job.
		{name: "edges_line", keys: ascending("line.edges"), partial: exists("line.edges")},
		// The next attempts that a sweep finishes.
		{name: "handover", keys: ascending("line.in"), partial: field("line.in", inHandover), everywhere: true},
		// An ID is taken once; finds the latest attempt.
		{name: "job_id", keys: ascending("job_id"), unique: true, partial: exists("job_id")},
		{name: "unique_lock", keys: ascending("unique_lock"), unique: true, partial: exists("unique_lock")},
		// A scope has one holder, with either library.
		{name: "scopes_1", keys: ascending("scopes"), unique: true, partial: exists("scopes")},
		// Leases that ended; how many jobs run.
		{name: "running", keys: ascending("status.in_prog", "lease_until", "status.completed"), partial: field("status.in_prog", true)},
		// What awaits a retry.
		{name: "retrying", keys: ascending("status.completed", "retry_info.retryable", "retry_info.needs_retry"), partial: endedRetry},
		// Counts, and finding jobs by their end.
		{name: "ended", keys: ascending("status.completed", "time_info.end", "retry_info.retryable", "retry_info.needs_retry"), partial: hasEnded},
		// The owners to tell of cancellations.
		{name: "cancels", keys: ascending("status.owner"), partial: field("cancel_requested", true), everywhere: true},
		// The ended jobs whose dependents a sweep updates.
		{name: "settle", keys: ascending("settle"), partial: exists("settle"), everywhere: true},
		{name: "forget", keys: ascending("forget_at"), partial: exists("forget_at"), everywhere: true},
		// Batches, and finding jobs by tag.
		{name: "tags", keys: ascending("tags", "order", "_id"), partial: exists("tags")},
		// The jobs that depend on one, also ended ones.
		{name: "dependents", keys: ascending(edges, "order", "_id"), partial: exists(edges + ".0"), use: reporting},
		// The attempts of a job.
		{keys: bson.D{{Key: "retry_info.base_job_id", Value: 1}, {Key: "retry_info.current_attempt", Value: -1}}, use: hot},
		// Pages and counts.
		{name: "order", keys: ascending("order", "_id"), use: reporting},
		{name: "created", keys: ascending("time_info.created", "_id"), use: reporting},
		{name: "ended_of_type", keys: ascending("type", "status.completed", "time_info.end", "_id"), partial: hasEnded, use: reporting},
	}
	if o.LegacyIndexes {
		all = append(all,
			index{name: "retrying_jobs", keys: append(ascending("status.completed", "retry_info.retryable", "retry_info.needs_retry"), bson.E{Key: "status.mod_ts", Value: -1}), use: legacy},
			index{keys: ascending("status.completed", "status.in_prog", "status.mod_ts"), use: legacy},
			index{keys: ascending("status.completed", "time_info.end"), use: legacy},
			index{keys: ascending("status.completed", "time_info.created"), use: legacy},
			index{keys: ascending("type", "status.completed", "status.in_prog", "status.mod_ts"), use: legacy},
			index{keys: ascending("type", "status.completed", "time_info.end"), use: legacy},
		)
		if !o.SkipWaitUntilIndex {
			all = append(all, index{keys: ascending("status.completed", "status.in_prog", "time_info.wait_until"), use: legacy})
		}
		if !o.SkipDispatchByIndex {
			all = append(all, index{keys: ascending("status.completed", "status.in_prog", "time_info.dispatch_by"), use: legacy})
		}
	}
	if o.Grouped {
		all = append(all,
			index{name: "order_of_all", keys: ascending("order", "_id"), use: reporting, everywhere: true},
			// What has expired in the queues of a claim; which queues have such.
			index{name: "expires_in_queue", keys: ascending("line.expires"), partial: exists("line.expires")},
		)
	}
	for i := range all {
		if o.Grouped && !all[i].everywhere {
			all[i].keys = append(bson.D{{Key: "group", Value: 1}}, all[i].keys...)
		}
	}
	return all
}

// spec returns the specification of the index for the server.
func (i *index) spec() bson.D {
	name := i.name
	if name == "" || name == "scopes_1" {
		name = defaultName(i.keys)
	}
	spec := bson.D{{Key: "key", Value: i.keys}, {Key: "name", Value: name}}
	if i.unique {
		spec = append(spec, bson.E{Key: "unique", Value: true})
	}
	if len(i.partial) > 0 {
		spec = append(spec, bson.E{Key: "partialFilterExpression", Value: i.partial})
	}
	return spec
}

// defaultName returns the name that client libraries give to an index.
func defaultName(keys bson.D) string {
	parts := make([]string, len(keys))
	for i, e := range keys {
		parts[i] = fmt.Sprintf("%s_%v", e.Key, e.Value)
	}
	return strings.Join(parts, "_")
}

// EnsureIndexes builds missing indexes and waits until they are built. It is for
// operators who configure Open to skip that. An existing index with the same keys is
// sufficient whatever its name, unless it must be unique and is not; servers before 5.0
// then refuse to build the unique index.
func (d *Driver) EnsureIndexes(ctx context.Context) error {
	leave, err := d.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return d.ensureIndexes(ctx)
}

// prepareIndexes builds missing indexes, or reports them if the options disable that.
func (d *Driver) prepareIndexes(ctx context.Context) error {
	if d.opts.SkipIndexes {
		return d.reportMissing(ctx)
	}
	return d.ensureIndexes(ctx)
}

// prepareIndexesAgain is prepareIndexes if the collection may have been dropped.
func (d *Driver) prepareIndexesAgain(ctx context.Context) error {
	if !d.unindexed.Swap(false) {
		return nil
	}
	err := d.prepareIndexes(ctx)
	if err != nil {
		d.unindexed.Store(true)
		return fmt.Errorf("preparing the indexes of a collection that was dropped: %w", err)
	}
	return nil
}

// checkIndexes makes a sweep build indexes if any is missing. It is for the goroutine of the change stream.
func (d *Driver) checkIndexes(ctx context.Context) error {
	if d.opts.SkipIndexes {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	missing, _, err := d.missingIndexes(ctx)
	if err != nil {
		return fmt.Errorf("checking the indexes: %w", err)
	}
	if slices.ContainsFunc(missing, d.builds) {
		d.unindexed.Store(true)
		d.sweeper.hurry()
	}
	return nil
}

// builds reports whether the driver builds an index if it is missing.
func (d *Driver) builds(i index) bool { return i.use != reporting || !d.opts.SkipReportingIndexes }

func (d *Driver) ensureIndexes(ctx context.Context) error {
	missing, building, err := d.missingIndexes(ctx)
	if err != nil {
		return err
	}
	specs := make([]bson.D, 0, len(missing)+len(building))
	for _, i := range missing {
		if d.builds(i) {
			specs = append(specs, i.spec())
		}
	}
	// A build of an index that is being built waits for its end. Until then a unique index
	// refuses nothing.
	specs = append(specs, building...)
	if len(specs) > 0 {
		err = d.buildIndexes(ctx, d.jobs, specs)
		if err != nil {
			return err
		}
	}
	d.indexDraining(ctx)
	return nil
}

// buildIndexes builds indexes and waits until they are built.
func (d *Driver) buildIndexes(ctx context.Context, of *mongo.Collection, specs []bson.D) error {
	build := bson.D{{Key: "createIndexes", Value: of.Name()}, {Key: "indexes", Value: specs}}
	if d.isReplica {
		// The default waits for all voting members, also for one that is down.
		build = append(build, bson.E{Key: "commitQuorum", Value: "majority"}, bson.E{Key: "writeConcern", Value: field("w", "majority")})
	}
	if err := of.Database().RunCommand(ctx, build).Err(); err != nil {
		return fmt.Errorf("building %d indexes of %s: %w", len(specs), of.Name(), err)
	}
	return nil
}

// draining is the index of the control documents of draining queues, which processes read often. There may be
// documents of very many other queues.
var draining = index{name: "draining", keys: ascending("draining"), partial: field("draining", true)}

// indexDraining builds that index if it is missing. Without it, all control documents are read, so failing is
// no error: processes of earlier versions did not need to build it.
func (d *Driver) indexDraining(ctx context.Context) {
	present, err := d.control.Indexes().ListSpecifications(ctx)
	if err == nil && !slices.ContainsFunc(present, func(i *mongo.IndexSpecification) bool { return i.Name == draining.name }) {
		err = d.buildIndexes(ctx, d.control, []bson.D{draining.spec()})
	}
	if err != nil {
		logging.Warning(ctx, message.Fields{
			"message":    "the index of draining queues could not be built; the settings of all queues are read to find them",
			"collection": d.control.Name(),
			"keys":       draining.keyText(),
			"error":      err.Error(),
		})
	}
}

// missingIndexes returns the indexes whose keys no existing index has, and the
// specifications of those that are being built.
func (d *Driver) missingIndexes(ctx context.Context) (missing []index, building []bson.D, err error) {
	present, building, err := d.presentIndexes(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("listing the indexes: %w", err)
	}
	missing = slices.DeleteFunc(d.opts.indexes(), func(i index) bool { return slices.Contains(present, i.keyText()) })
	return missing, building, nil
}

// keyText identifies an index by its keys and uniqueness.
func (i *index) keyText() string { return keyText(i.keys, i.unique) }

func keyText(keys bson.D, unique bool) string {
	text := ""
	if unique {
		text = "unique "
	}
	for _, e := range keys {
		text += fmt.Sprintf("%s:%v,", e.Key, e.Value)
	}
	return text
}

// presentIndexes returns the keys of the existing indexes, and the specifications of those
// among them that are being built and that this driver needs.
func (d *Driver) presentIndexes(ctx context.Context) (keys []string, building []bson.D, err error) {
	list := bson.D{{Key: "listIndexes", Value: d.jobs.Name()}, {Key: "cursor", Value: bson.D{}}}
	cursor, err := d.jobs.Database().RunCommandCursor(ctx, append(list, bson.E{Key: "includeBuildUUIDs", Value: true}))
	var failure mongo.CommandError
	if errors.As(err, &failure) && failure.Code == codeAPIStrict {
		// A client with a strict API version does not learn which are being built.
		cursor, err = d.jobs.Database().RunCommandCursor(ctx, list)
	}
	switch {
	case errors.As(err, &failure) && failure.Code == codeNamespaceNotFound:
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	}
	type specification struct {
		Key    bson.D `bson:"key"`
		Unique bool   `bson:"unique"`
	}
	var all []struct {
		Built specification `bson:",inline"`
		Spec  bson.D        `bson:"spec"` // of an index that is being built
	}
	if err := cursor.All(ctx, &all); err != nil {
		return nil, nil, err
	}
	for _, one := range all {
		spec := one.Built
		if len(one.Spec) > 0 {
			raw, err := bson.Marshal(one.Spec)
			if err == nil {
				err = bson.Unmarshal(raw, &spec)
			}
			if err != nil {
				return nil, nil, err
			}
			if text := keyText(spec.Key, spec.Unique); slices.ContainsFunc(d.opts.indexes(), func(i index) bool { return i.keyText() == text }) {
				building = append(building, one.Spec)
			}
		}
		keys = append(keys, keyText(spec.Key, spec.Unique))
	}
	return keys, building, nil
}

// reportMissing logs missing indexes without which claims, completions or retries scan
// too many documents, or the same job may be stored twice.
func (d *Driver) reportMissing(ctx context.Context) error {
	missing, _, err := d.missingIndexes(ctx)
	if err != nil {
		return err
	}
	for _, i := range missing {
		if i.use == hot {
			logging.Error(ctx, message.Fields{
				"message":    "a required index is missing; call EnsureIndexes to build it",
				"database":   d.jobs.Database().Name(),
				"collection": d.jobs.Name(),
				"index":      i.label(),
				"keys":       i.keyText(),
			})
		}
	}
	return nil
}

func (i *index) label() string {
	if i.name != "" {
		return i.name
	}
	return i.keyText()
}
