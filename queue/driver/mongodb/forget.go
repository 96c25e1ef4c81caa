package mongodb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy/queue/driver"
)

// forgetBatch is the maximum number of records that are forgotten in one write.
const forgetBatch = 1000

// Forget implements driver.Driver. It removes 1,000 records at a time. If it fails after
// some were removed, it returns their number with the error. A process that dies between
// removing records and counting them leaves up to 1,000 out of the stats.
func (d *Driver) Forget(ctx context.Context, now time.Time, limit int) (int, error) {
	leave, err := d.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	ctx = plain(ctx)
	forgotten := 0
	for forgotten < limit {
		want := min(limit-forgotten, forgetBatch)
		due, n, err := d.forget(ctx, now, want)
		forgotten += n
		if err != nil {
			return forgotten, fmt.Errorf("forgetting finished records: %w", err)
		}
		if due < want || n == 0 {
			break
		}
	}
	return forgotten, nil
}

// forget removes up to limit records. It returns how many were due and how many of them
// it removed; other processes may have removed the rest, or a retry is under way.
func (d *Driver) forget(ctx context.Context, now time.Time, limit int) (due, forgotten int, err error) {
	// The legacy library never makes such a record unfinished again.
	mayBeRemoved := all(endedFinal, field("forget_at", field("$lte", now)), field("settle", nil))
	opts := options.Find().SetSort(field("forget_at", 1)).SetLimit(int64(limit)).SetProjection(bson.D{
		{Key: "group", Value: 1}, {Key: "forget_at", Value: 1}, {Key: "retry_info", Value: 1},
	})
	var docs []*document
	err = d.each(ctx, mayBeRemoved, opts, func(doc *document) error {
		docs = append(docs, doc)
		return nil
	})
	if err != nil || len(docs) == 0 {
		return 0, 0, err
	}
	forgotten, err = d.removeAll(ctx, docs, func(doc *document) bson.D {
		return all(field("_id", doc.id), endedFinal, field("forget_at", doc.ForgetAt), field("settle", nil))
	})
	return len(docs), forgotten, err
}

// remove removes documents that have not changed since this process wrote them.
func (d *Driver) remove(ctx context.Context, docs []*document) error {
	_, err := d.removeAll(ctx, docs, func(doc *document) bson.D {
		return bson.D{{Key: "_id", Value: doc.id}, {Key: "rev", Value: doc.Rev}}
	})
	if err != nil {
		return fmt.Errorf("removing %d records, which Forget will remove later: %w", len(docs), err)
	}
	return nil
}

// removeAll removes the documents that match the filters from asSeen, with one command
// for each queue, and counts them in the control documents. It leaves out the attempts of jobs of
// which an attempt waits to take the place of another one: that attempt must not take it once the
// job has ended for good, and must take it if the other one has made way, so that one must be
// stored.
func (d *Driver) removeAll(ctx context.Context, docs []*document, asSeen func(*document) bson.D) (removed int, err error) {
	docs, err = d.withoutRetried(ctx, docs)
	if err != nil {
		return 0, err
	}
	queues := map[string][]mongo.WriteModel{}
	for _, doc := range docs {
		queues[doc.Group] = append(queues[doc.Group], mongo.NewDeleteOneModel().SetFilter(asSeen(doc)))
	}
	names := slices.Collect(maps.Keys(queues))
	removedOf, errs := make([]int64, len(names)), make([]error, len(names))
	eachAtOnce(len(names), func(i int) {
		result, failure := d.jobs.BulkWrite(ctx, queues[names[i]], options.BulkWrite().SetOrdered(false))
		if result != nil {
			removedOf[i] = result.DeletedCount
		}
		if failure != nil {
			errs[i] = failed(ctx, failure)
		}
	})
	var counts []mongo.WriteModel
	for i, n := range removedOf {
		if n > 0 {
			removed += int(n)
			counts = append(counts, countRemoved(names[i], n))
		}
	}
	err = errors.Join(errs...)
	if len(counts) == 0 {
		return removed, err
	}
	// They are removed, so they are counted even if the caller has left.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countTimeout)
	defer cancel()
	_, failure := d.control.BulkWrite(ctx, counts, options.BulkWrite().SetOrdered(false))
	if failure != nil {
		failure = fmt.Errorf("counting %d removed records: %w", removed, failure)
	}
	return removed, errors.Join(err, failure)
}

// withoutRetried returns the documents of jobs of which no attempt waits to take the place of another
// one.
func (d *Driver) withoutRetried(ctx context.Context, docs []*document) ([]*document, error) {
	if !slices.ContainsFunc(docs, func(doc *document) bool { return doc.RetryInfo.Retryable }) {
		return docs, nil
	}
	retried := map[key]bool{}
	opts := options.Find().SetProjection(bson.D{{Key: "group", Value: 1}, {Key: "retry_info", Value: 1}})
	err := d.each(ctx, field("line.in", inHandover), opts, func(next *document) error {
		retried[key{next.Group, next.Record.JobID()}] = true
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading which jobs are being retried: %w", err)
	}
	return slices.DeleteFunc(slices.Clone(docs), func(doc *document) bool {
		return doc.RetryInfo.Retryable && retried[key{doc.Group, doc.Record.JobID()}]
	}), nil
}

// countTimeout bounds the write of the number of removed records.
const countTimeout = 5 * time.Second

func countRemoved(queue string, n int64) mongo.WriteModel {
	return mongo.NewUpdateOneModel().
		SetFilter(field("_id", controlKey(queue))).
		SetUpdate(bson.D{{Key: "$set", Value: field("queue", queue)}, {Key: "$inc", Value: field("removed", n)}}).
		SetUpsert(true)
}

// Prune implements driver.Driver. It drops nothing: no document is stored of a queue without records and
// settings.
func (d *Driver) Prune(ctx context.Context, req driver.PruneRequest) (int, error) {
	return 0, cmp.Or(req.Validate(), ctx.Err())
}
