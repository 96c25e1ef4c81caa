package mongodb

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mongodb/grip/message"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

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

// indexes returns the indexes of the jobs' collection.
func (o Options) indexes() []index {
	all := []index{
		{name: "next_job", keys: append(ascending("status.completed", "status.in_prog", "line.in"), inRank...)},
		{
			name:    "next_job_of_kind",
			keys:    append(ascending("status.completed", "status.in_prog", "line.in", "line.kind"), inRank...),
			partial: field("line.in", inReady),
		},
		{name: "due", keys: ascending("line.due"), partial: exists("line.due"), everywhere: true},
		{name: "since", keys: ascending("line.since"), partial: exists("line.since"), everywhere: true},
		{name: "expires", keys: ascending("line.expires"), partial: exists("line.expires"), everywhere: true},
		{name: "scope_line", keys: append(ascending("line.scope"), inRank...), partial: exists("line.scope")},
		{name: "wanted_scopes", keys: ascending("line.wants", "line.in"), partial: exists("line.wants")},
		{name: "edges_line", keys: ascending("line.edges"), partial: exists("line.edges")},
		{name: "handover", keys: ascending("line.in"), partial: field("line.in", inHandover), everywhere: true},
		{name: "job_id", keys: ascending("job_id"), unique: true, partial: exists("job_id")},
		{name: "unique_lock", keys: ascending("unique_lock"), unique: true, partial: exists("unique_lock")},
		{name: "scopes_1", keys: ascending("scopes"), unique: true, partial: exists("scopes")},
		{name: "leases", keys: ascending("lease_until"), partial: field("status.in_prog", true), everywhere: true},
		{name: "cancels", keys: ascending("status.owner"), partial: field("cancel_requested", true), everywhere: true},
		{name: "settle", keys: ascending("settle"), partial: exists("settle"), everywhere: true},
		{name: "forget", keys: ascending("forget_at"), partial: exists("forget_at"), everywhere: true},
		{name: "tags", keys: ascending("tags", "order", "_id"), partial: exists("tags")},
		{name: "dependents", keys: ascending(edges, "order", "_id"), partial: exists(edges + ".0"), use: reporting},
		{name: "retrying_jobs", keys: append(ascending("status.completed", "retry_info.retryable", "retry_info.needs_retry"), bson.E{Key: "status.mod_ts", Value: -1}), use: hot},
		{keys: bson.D{{Key: "retry_info.base_job_id", Value: 1}, {Key: "retry_info.current_attempt", Value: -1}}, use: hot},
		{name: "order", keys: ascending("order", "_id"), use: reporting},
		{keys: ascending("status.completed", "status.in_prog", "status.mod_ts"), use: reporting},
		{keys: ascending("status.completed", "time_info.end"), use: reporting},
		{keys: ascending("status.completed", "time_info.created"), use: reporting},
		{keys: ascending("type", "status.completed", "status.in_prog", "status.mod_ts"), use: reporting},
		{keys: ascending("type", "status.completed", "time_info.end"), use: reporting},
	}
	if o.Grouped {
		all = append(all, index{name: "order_of_all", keys: ascending("order", "_id"), use: reporting, everywhere: true})
	}
	if !o.SkipWaitUntilIndex {
		all = append(all, index{keys: ascending("status.completed", "status.in_prog", "time_info.wait_until"), use: legacy})
	}
	if !o.SkipDispatchByIndex {
		all = append(all, index{keys: ascending("status.completed", "status.in_prog", "time_info.dispatch_by"), use: legacy})
	}
	for i := range all {
		if o.Grouped && !all[i].everywhere {
			all[i].keys = append(bson.D{{Key: "group", Value: 1}}, all[i].keys...)
		}
	}
	return all
}

func (i *index) model() mongo.IndexModel {
	opts := options.Index()
	if i.name != "" && i.name != "scopes_1" {
		opts.SetName(i.name)
	}
	if i.unique {
		opts.SetUnique(true)
	}
	if len(i.partial) > 0 {
		opts.SetPartialFilterExpression(i.partial)
	}
	return mongo.IndexModel{Keys: i.keys, Options: opts}
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

func (d *Driver) ensureIndexes(ctx context.Context) error {
	missing, err := d.missingIndexes(ctx)
	if err != nil {
		return err
	}
	var models []mongo.IndexModel
	for _, i := range missing {
		if i.use != reporting || !d.opts.SkipReportingIndexes {
			models = append(models, i.model())
		}
	}
	if len(models) == 0 {
		return nil
	}
	if _, err = d.jobs.Indexes().CreateMany(ctx, models); err != nil {
		return fmt.Errorf("building %d indexes: %w", len(models), err)
	}
	return nil
}

// missingIndexes returns the indexes whose keys no existing index has.
func (d *Driver) missingIndexes(ctx context.Context) ([]index, error) {
	present, err := d.presentKeys(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the indexes: %w", err)
	}
	return slices.DeleteFunc(d.opts.indexes(), func(i index) bool { return slices.Contains(present, i.keyText()) }), nil
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

func (d *Driver) presentKeys(ctx context.Context) ([]string, error) {
	cursor, err := d.jobs.Indexes().List(ctx)
	if err != nil {
		var failure mongo.CommandError
		if errors.As(err, &failure) && failure.Code == codeNamespaceNotFound {
			return nil, nil
		}
		return nil, err
	}
	var all []struct {
		Key    bson.D `bson:"key"`
		Unique bool   `bson:"unique"`
	}
	err = cursor.All(ctx, &all)
	if err != nil {
		return nil, err
	}
	present := make([]string, len(all))
	for i, one := range all {
		present[i] = keyText(one.Key, one.Unique)
	}
	return present, nil
}

// reportMissing logs missing indexes without which claims, completions or retries scan
// too many documents, or the same job may be stored twice.
func (d *Driver) reportMissing(ctx context.Context) error {
	missing, err := d.missingIndexes(ctx)
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
