package mongodb

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy/queue/driver"
)

// Work implements driver.Driver. The server skips, in its indexes, from one queue to the
// next. It also names queues that run as many jobs as they may.
func (d *Driver) Work(ctx context.Context, now time.Time) (driver.Work, error) {
	leave, err := d.enter(ctx)
	if err != nil {
		return driver.Work{}, err
	}
	defer leave()
	found, err := hedge(plain(ctx), &d.workTimes, func(ctx context.Context) (*foundWork, error) {
		return d.findWork(ctx, d.workPipeline(stored(now)))
	})
	if err != nil {
		return driver.Work{}, fmt.Errorf("querying which queues have work: %w", err)
	}
	return found.work(d.timedBatch), nil
}

// Survey implements driver.Surveyor. It sends one command, after it has asked for the server's time,
// and another one if jobs are ready.
func (d *Driver) Survey(ctx context.Context, now time.Time, within time.Duration) (work driver.Work, staleIn time.Duration, err error) {
	leave, err := d.enter(ctx)
	if err != nil {
		return driver.Work{}, 0, err
	}
	defer leave()
	found, err := hedge(plain(ctx), &d.surveyTimes, func(ctx context.Context) (*foundWork, error) {
		serverTime, failure := d.serverTime(ctx)
		if failure != nil {
			return nil, failure
		}
		pipeline := d.workPipeline(stored(now))
		for _, wrong := range d.wrongTimes(serverTime) {
			pipeline = append(pipeline, d.union(match(wrong.filter), field("$limit", 1), project("stale", bson.D{{Key: "$literal", Value: ""}})))
		}
		pipeline = append(pipeline, d.union(d.firstEnd(serverTime, serverTime.Add(within))...))
		found, failure := d.findWork(ctx, pipeline)
		if failure != nil {
			return nil, failure
		}
		found.staleIn = found.untilStale(serverTime, within)
		return found, nil
	})
	if err != nil {
		return driver.Work{}, 0, fmt.Errorf("querying which queues have work and whether leases have run out: %w", err)
	}
	return found.work(d.timedBatch), found.staleIn, nil
}

// firstEnd returns the stages that find the end of the first lease that ends from one time until
// another, or of a later one if there are very many. There are few as a rule, because live processes
// renew their leases long before.
func (d *Driver) firstEnd(from, to time.Time) bson.A {
	return bson.A{
		match(d.isRunning(field(leaseEnds, bson.D{{Key: "$gte", Value: from}, {Key: "$lt", Value: to}}))),
		field("$limit", recoverBatch), // no index has the leases of all queues in the order of their ends
		bson.D{{Key: "$sort", Value: field(leaseEnds, 1)}},
		field("$limit", 1),
		project("ends", "$"+leaseEnds),
	}
}

func (d *Driver) findWork(ctx context.Context, pipeline bson.A) (*foundWork, error) {
	found := &foundWork{queues: map[string]*driver.QueueWork{}}
	if err := d.pipe(ctx, pipeline, found.add); err != nil {
		return nil, err
	}
	return found, d.leaveOutStopped(ctx, found.queues)
}

// workPipeline returns the pipeline whose results foundWork adds up: documents with one field, whose
// name is what was found.
func (d *Driver) workPipeline(at time.Time) bson.A {
	queues := func(result string, filter bson.D) bson.A {
		if !d.opts.Grouped {
			return bson.A{match(filter), field("$limit", 1), project(result, bson.D{{Key: "$literal", Value: ""}})}
		}
		return bson.A{match(all(anyQueue, filter)), field("$group", field("_id", "$group")), project(result, "$_id")}
	}
	first := func(path string, from bson.D) bson.A {
		return bson.A{
			match(field(path, append(exist(true), from...))),
			bson.D{{Key: "$sort", Value: field(path, 1)}},
			field("$limit", 1),
			project("next", "$"+path),
		}
	}
	pipeline := queues("ready", ready)
	for _, branch := range []bson.A{
		// The legacy library sets no line. Together with the branch before, this would read all
		// that wait: servers do not skip in an index if one of several values is null.
		queues("ready", append(slices.Clip(waiting), field("line.in", nil)...)),
		d.overdue(at),
		queues("expired", field("line.expires", field("$lt", at))), // nor if the field must exist
		queues("retrying", endedRetry),
		first("line.due", field("$gt", at)),
		first("line.expires", field("$gte", at)),
	} {
		pipeline = append(pipeline, d.union(branch...))
	}
	return pipeline
}

// foundWork adds up the results of a workPipeline, and of a survey.
type foundWork struct {
	stale   bool
	ends    time.Time     // when the first lease ends, in a survey; zero if none does in time
	staleIn time.Duration // of a survey
	queues  map[string]*driver.QueueWork
	overdue []string // the queues of the first documents that are due
	next    time.Time
}

func (f *foundWork) add(raw bson.Raw) {
	elements, malformed := raw.Elements()
	if malformed != nil || len(elements) == 0 {
		return
	}
	what, value := elements[0].Key(), elements[0].Value()
	switch what {
	case "stale":
		f.stale = true
		return
	case "ends":
		f.ends = value.Time()
		return
	case "next":
		if next := value.Time().UTC(); f.next.IsZero() || next.Before(f.next) {
			f.next = next
		}
		return
	}
	name, _ := value.StringValueOK()
	w := f.queues[name]
	if w == nil {
		w = &driver.QueueWork{Queue: name}
		f.queues[name] = w
	}
	switch what {
	case "ready":
		w.Ready = true
	case "overdue":
		w.Ready = true
		f.overdue = append(f.overdue, name)
	case "expired":
		w.Expired = true
	case "retrying":
		w.Retrying = true
	}
}

// untilStale returns how long a recovery will have nothing to do, at most within, after a survey at
// a time of the server.
func (f *foundWork) untilStale(at time.Time, within time.Duration) time.Duration {
	switch {
	case f.stale:
		return 0
	case f.ends.IsZero():
		return within
	default:
		return f.ends.Sub(at) + time.Millisecond // it has ended when its time is over
	}
}

// work returns what was found, after the stopped queues were left out. The pipeline has read up to timedBatch due
// documents.
func (f *foundWork) work(timedBatch int) driver.Work {
	if len(f.overdue) == timedBatch {
		// There may be more, of other queues. A claim from any queue makes these ready, even if it is stopped.
		for _, name := range f.overdue {
			f.queues[name].Ready = true
		}
	}
	work := driver.Work{Next: f.next}
	for _, w := range f.queues {
		if w.Ready || w.Expired || w.Retrying {
			work.Queues = append(work.Queues, *w)
		}
	}
	slices.SortFunc(work.Queues, func(a, b driver.QueueWork) int { return cmp.Compare(a.Queue, b.Queue) })
	return work
}

// overdue returns the stages that find the queues of the first documents that are due. There may be
// very many, which no index has by queue.
func (d *Driver) overdue(at time.Time) bson.A {
	var queue any = "$group"
	if !d.opts.Grouped {
		queue = bson.D{{Key: "$literal", Value: ""}}
	}
	return bson.A{
		match(field("line.due", append(exist(true), bson.E{Key: "$lte", Value: at}))),
		bson.D{{Key: "$sort", Value: field("line.due", 1)}},
		field("$limit", d.timedBatch),
		project("overdue", queue),
	}
}

// leaveOutStopped reads which of the queues with jobs that may run are stopped. There may be settings of very many
// others.
func (d *Driver) leaveOutStopped(ctx context.Context, found map[string]*driver.QueueWork) error {
	keys := bson.A{}
	for name, w := range found {
		if w.Ready {
			keys = append(keys, controlKey(name))
		}
	}
	if len(keys) == 0 {
		return nil
	}
	isStopped := either(field("paused", true), field("rate", 0))
	cursor, err := d.control.Find(ctx, all(field("_id", field("$in", keys)), isStopped), options.Find().SetProjection(field("_id", 1)))
	if err != nil {
		return err
	}
	return visitAll(ctx, cursor, func(raw bson.Raw) {
		key, _ := raw.Lookup("_id").StringValueOK()
		if w := found[strings.TrimPrefix(key, controlPrefix)]; w != nil {
			w.Ready = false
		}
	})
}
