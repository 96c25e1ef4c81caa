package mongodb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
	"go.mongodb.org/mongo-driver/mongo/readconcern"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

// tally is a row of the counts of queues: either a number of documents that have some
// fields in common, or the control document of a queue.
type tally struct {
	// Of holds the values of the fields, which may have any type.
	Of struct {
		Queue      any `bson:"queue"`
		InProgress any `bson:"in_prog"`
		In         any `bson:"in"`
		Completed  any `bson:"completed"`
		Retryable  any `bson:"retryable"`
		NeedsRetry any `bson:"needs_retry"`
	} `bson:"of"`
	Number  int              `bson:"number"`
	Control *controlDocument `bson:"control"`
}

// tallies counts the documents that a filter selects, of the ended ones those that another
// filter selects, and reads some of the control documents, in one command. It reads only index keys of the documents.
func (d *Driver) tallies(ctx context.Context, filter, ended, controls bson.D) (rows []tally, err error) {
	var queue any = "$group"
	if !d.opts.Grouped {
		queue = field("$literal", "")
	}
	pipeline := append(d.countBy(queue, filter, ended), union(d.control.Name(), match(controls), project("control", "$$ROOT")))
	err = d.readCounts(ctx, pipeline, &rows)
	return rows, err
}

// countBy returns the stages that count the documents that a filter selects, of the ended ones
// those that another filter selects, by an expression for their queue and by the fields of a
// tally. They read only index keys.
func (d *Driver) countBy(queue any, filter, ended bson.D) bson.A {
	count := func(selected, fields bson.D) bson.A {
		of := append(field("queue", queue), fields...)
		return bson.A{
			match(append(slices.Clone(filter), selected...)),
			field("$group", bson.D{{Key: "_id", Value: of}, {Key: "number", Value: field("$sum", 1)}}),
			field("$project", bson.D{{Key: "_id", Value: 0}, {Key: "of", Value: "$_id"}, {Key: "number", Value: 1}}),
		}
	}
	inLine := bson.D{{Key: "in_prog", Value: "$status.in_prog"}, {Key: "in", Value: "$line.in"}}
	inProgress := field("in_prog", "$status.in_prog")
	finished := bson.D{
		{Key: "completed", Value: "$status.completed"},
		{Key: "retryable", Value: "$retry_info.retryable"},
		{Key: "needs_retry", Value: "$retry_info.needs_retry"},
	}
	return append(count(waiting, inLine), d.union(count(running, inProgress)...), d.union(count(ended, finished)...))
}

// readCounts runs a pipeline over the jobs, with a snapshot if the server has them. Without
// one, a job that is retried meanwhile may be missed in both its old and its new state, so
// that callers that wait for all jobs to end return too early.
func (d *Driver) readCounts(ctx context.Context, pipeline bson.A, rows any) (err error) {
	from := d.jobs
	if d.isReplica {
		from, err = d.jobs.Clone(options.Collection().SetReadConcern(readconcern.Snapshot()))
		if err != nil {
			return err
		}
	}
	return snapshotReads(ctx, func() error { return d.aggregate(ctx, from, pipeline, rows) })
}

// describe combines counts into descriptions of queues.
func describe(rows []tally) map[string]*driver.QueueInfo {
	infos := map[string]*driver.QueueInfo{}
	of := func(queue any) *driver.QueueInfo {
		name, _ := queue.(string)
		if infos[name] == nil {
			infos[name] = &driver.QueueInfo{Name: name}
		}
		return infos[name]
	}
	for _, row := range rows {
		if row.Control == nil {
			row.addTo(of(row.Of.Queue))
			continue
		}
		info := of(row.Control.Queue)
		info.Control = row.Control.control()
		info.Stats.Completed += row.Control.Removed
	}
	for _, info := range infos {
		s := &info.Stats
		s.Total = s.Pending + s.Running + s.Completed
	}
	return infos
}

func (t *tally) addTo(info *driver.QueueInfo) {
	in, _ := t.Of.In.(string)
	stats := &info.Stats
	switch {
	case t.Of.Completed == true:
		stats.Completed += t.Number
		if t.Of.Retryable == true && t.Of.NeedsRetry == true {
			stats.Retrying += t.Number
		}
	case t.Of.InProgress == true:
		stats.Running += t.Number
	default:
		stats.Pending += t.Number
		switch place(in) {
		case inPostponed, inScope, inEdges:
			stats.Blocked += t.Number
		case inScheduled, inHandover:
			info.Scheduled += t.Number
		case inParked:
			info.Parked += t.Number
		}
	}
}

// Stats implements driver.Driver. It sends one command. For the moment in which an attempt is
// replaced, the next one is counted too. On a standalone server, which has no snapshots, it counts
// again if nothing seems to be left.
func (d *Driver) Stats(ctx context.Context, queue string) (amboy.QueueStats, error) {
	leave, err := d.enter(ctx)
	if err != nil {
		return amboy.QueueStats{}, err
	}
	defer leave()
	ctx = plain(ctx)
	stats, err := d.stats(ctx, queue)
	if err == nil && stats.IsIdle() && !d.isReplica {
		stats, err = d.stats(ctx, queue)
	}
	if err != nil {
		return amboy.QueueStats{}, fmt.Errorf("counting the records of queue %q: %w", queue, err)
	}
	return stats, nil
}

// IsIdle implements driver.IdleProber. It sends one command, which reads an index key at most of
// each of the jobs that wait, run and await a retry. On a standalone server it asks again if
// there seem to be none.
func (d *Driver) IsIdle(ctx context.Context, queue string) (bool, error) {
	leave, err := d.enter(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	ctx = plain(ctx)
	isIdle, err := d.isIdle(ctx, queue)
	if err == nil && isIdle && !d.isReplica {
		isIdle, err = d.isIdle(ctx, queue)
	}
	if err != nil {
		return false, fmt.Errorf("querying whether queue %q has jobs that have not ended: %w", queue, err)
	}
	return isIdle, nil
}

func (d *Driver) isIdle(ctx context.Context, queue string) (bool, error) {
	one := func(which bson.D) bson.A {
		return bson.A{match(d.inQueue(queue, which...)), field("$limit", 1), field("$project", bson.D{{Key: "_id", Value: 0}, {Key: "status.completed", Value: 1}})}
	}
	pipeline := append(one(waiting), d.union(one(running)...), d.union(one(endedRetry)...))
	var found []bson.Raw
	err := d.readCounts(ctx, pipeline, &found)
	return len(found) == 0, err
}

func (d *Driver) stats(ctx context.Context, queue string) (amboy.QueueStats, error) {
	rows, err := d.tallies(ctx, d.inQueue(queue), hasEnded, field("_id", controlKey(queue)))
	if info := describe(rows)[queue]; info != nil {
		return info.Stats, err
	}
	return amboy.QueueStats{}, err
}

// Queues implements driver.Driver. Without a limit it sends one command, whatever the number
// of queues, which reads index keys and the controls of the queues. For a page it first finds
// the names: with a command for each keysAtOnce index keys, and at most one for each queue.
func (d *Driver) Queues(ctx context.Context, req driver.QueueRequest) ([]driver.QueueInfo, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	leave, err := d.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	infos, err := d.queues(plain(ctx), req)
	if err != nil {
		return nil, fmt.Errorf("describing the queues: %w", err)
	}
	return infos, nil
}

func (d *Driver) queues(ctx context.Context, req driver.QueueRequest) ([]driver.QueueInfo, error) {
	if !d.opts.Grouped && req.From != "" {
		return nil, nil // the only queue has no name
	}
	if d.opts.Grouped && req != (driver.QueueRequest{}) {
		names, err := d.namesFrom(ctx, req)
		if err != nil || len(names) == 0 {
			return nil, err
		}
		return d.describeNamed(ctx, names, hasEnded)
	}
	var filter bson.D
	if d.opts.Grouped {
		filter = anyQueue
	}
	rows, err := d.tallies(ctx, filter, hasEnded, field("_id", withPrefix(controlPrefix)))
	return sortedInfos(rows), err
}

// describeNamed describes the named queues of a collection with many queues, sorted by name. It
// counts the ended documents that a filter selects.
func (d *Driver) describeNamed(ctx context.Context, names []string, ended bson.D) ([]driver.QueueInfo, error) {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = controlKey(name)
	}
	rows, err := d.tallies(ctx, field("group", field("$in", names)), ended, field("_id", field("$in", keys)))
	return sortedInfos(rows), err
}

func sortedInfos(rows []tally) []driver.QueueInfo {
	described := make([]driver.QueueInfo, 0, len(rows))
	for _, info := range describe(rows) {
		described = append(described, *info)
	}
	slices.SortFunc(described, func(a, b driver.QueueInfo) int { return cmp.Compare(a.Name, b.Name) })
	return described
}

// keysAtOnce is the number of index keys that one command reads for the names of queues.
const keysAtOnce = 100

// namesFrom returns the names of the queues of a page, sorted.
func (d *Driver) namesFrom(ctx context.Context, req driver.QueueRequest) ([]string, error) {
	limit := req.Limit
	if limit == 0 {
		limit = math.MaxInt
	}
	stored, err := d.controlledFrom(ctx, req)
	if err != nil {
		return nil, err
	}
	var names []string
	for from := field("$gte", req.From); len(names) < limit; {
		var found []struct {
			Group string `bson:"group"`
		}
		cursor, err := d.jobs.Find(ctx, field("group", from), options.Find().
			SetSort(field("group", 1)).SetProjection(bson.D{{Key: "_id", Value: 0}, {Key: "group", Value: 1}}).SetLimit(keysAtOnce))
		if err == nil {
			err = cursor.All(ctx, &found)
		}
		if err != nil {
			return nil, err
		}
		for _, one := range found {
			if len(names) == 0 || names[len(names)-1] != one.Group {
				names = append(names, one.Group)
			}
		}
		if len(found) < keysAtOnce {
			break
		}
		from = field("$gt", names[len(names)-1])
	}
	names = slices.Compact(slices.Sorted(slices.Values(append(names, stored...))))
	return names[:min(limit, len(names))], nil
}

// controlledFrom returns the names of a page of the queues that have a control document.
func (d *Driver) controlledFrom(ctx context.Context, req driver.QueueRequest) ([]string, error) {
	controls := withPrefix(controlPrefix)
	controls[0].Value = controlKey(req.From)
	cursor, err := d.control.Find(ctx, field("_id", controls), options.Find().
		SetSort(field("_id", 1)).SetProjection(field("queue", 1)).SetLimit(int64(req.Limit)))
	var found []controlDocument
	if err == nil {
		err = cursor.All(ctx, &found)
	}
	if err != nil {
		return nil, err
	}
	names := make([]string, len(found))
	for i, one := range found {
		names[i] = one.Queue
	}
	return names, nil
}

// SumQueues implements driver.Driver. The server adds up the queues, and sends a few rows for
// them. Another command describes the busiest queues.
func (d *Driver) SumQueues(ctx context.Context, busiest int) (driver.QueueTotals, error) {
	leave, err := d.enter(ctx)
	if err != nil {
		return driver.QueueTotals{}, err
	}
	defer leave()
	totals, err := d.sumQueues(plain(ctx), busiest, false)
	if err != nil {
		return driver.QueueTotals{}, fmt.Errorf("adding up the queues: %w", err)
	}
	return totals, nil
}

// SumUnfinished implements driver.UnfinishedSummer. It reads an index key of each document that
// has not ended for good.
func (d *Driver) SumUnfinished(ctx context.Context, busiest int) (driver.QueueTotals, error) {
	leave, err := d.enter(ctx)
	if err != nil {
		return driver.QueueTotals{}, err
	}
	defer leave()
	totals, err := d.sumQueues(plain(ctx), busiest, true)
	if err != nil {
		return driver.QueueTotals{}, fmt.Errorf("adding up the jobs that have not ended: %w", err)
	}
	return totals, nil
}

// sumQueues leaves out the number of queues and the documents that have ended for good if only
// the others are of interest.
func (d *Driver) sumQueues(ctx context.Context, busiest int, unfinished bool) (totals driver.QueueTotals, err error) {
	ended := hasEnded
	if unfinished {
		ended = endedRetry
	}
	if !d.opts.Grouped {
		rows, errQueue := d.tallies(ctx, nil, ended, field("_id", withPrefix(controlPrefix)))
		for _, info := range sortedInfos(rows) { // one at most
			totals.Add(info, busiest)
		}
		return totals, errQueue
	}
	controls := match(field("_id", withPrefix(controlPrefix)))
	pipeline := append(d.countBy(field("$literal", ""), anyQueue, ended),
		union(d.control.Name(), controls,
			field("$group", bson.D{{Key: "_id", Value: nil}, {Key: "removed", Value: field("$sum", "$removed")}}),
			project("control", field("removed", "$removed"))))
	if !unfinished {
		pipeline = append(pipeline, d.union(match(anyQueue), field("$group", field("_id", "$group")),
			union(d.control.Name(), controls, field("$group", field("_id", "$queue"))),
			field("$group", field("_id", "$_id")), field("$count", "queues")))
	}
	if busiest > 0 {
		pipeline = append(pipeline, d.union(d.rankQueues(busiest)...))
	}
	var rows []struct {
		Tally   tally   `bson:",inline"`
		Queues  int     `bson:"queues"`
		Busiest *string `bson:"busiest"`
	}
	err = d.readCounts(ctx, pipeline, &rows)
	if err != nil {
		return totals, err
	}
	var tallies []tally
	var names []string
	for _, row := range rows {
		switch {
		case row.Busiest != nil:
			names = append(names, *row.Busiest)
		case row.Queues > 0:
			totals.Queues = row.Queues
		default:
			tallies = append(tallies, row.Tally)
		}
	}
	if sum := describe(tallies)[""]; sum != nil {
		totals.Stats, totals.Scheduled, totals.Parked = sum.Stats, sum.Scheduled, sum.Parked
	}
	if len(names) == 0 {
		return totals, nil
	}
	infos, err := d.describeNamed(ctx, names, ended)
	var ranked driver.QueueTotals
	for _, info := range infos {
		ranked.Add(info, busiest)
	}
	totals.Busiest = ranked.Busiest
	return totals, err
}

// rankQueues returns the stages that find the names of the queues with the most documents that
// have not ended for good.
func (d *Driver) rankQueues(most int) bson.A {
	sum := func(n any) bson.D { return field("number", field("$sum", n)) }
	count := func(filter bson.D) bson.A {
		return bson.A{match(append(slices.Clone(anyQueue), filter...)), field("$group", append(field("_id", "$group"), sum(1)...))}
	}
	return append(count(waiting), d.union(count(running)...), d.union(count(endedRetry)...),
		field("$group", append(field("_id", "$_id"), sum("$number")...)),
		field("$sort", bson.D{{Key: "number", Value: -1}, {Key: "_id", Value: 1}}),
		field("$limit", most),
		project("busiest", "$_id"),
	)
}

// CountTypes implements driver.Driver. It reads the documents that have not ended, with one
// command.
func (d *Driver) CountTypes(ctx context.Context) ([]driver.TypeCount, error) {
	leave, err := d.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx = plain(ctx)
	var queue any = "$group"
	var inAny bson.D
	if d.opts.Grouped {
		inAny = anyQueue
	} else {
		queue = field("$literal", "")
	}
	count := func(filter bson.D) bson.A {
		of := bson.D{
			{Key: "queue", Value: queue},
			{Key: "type", Value: "$type"},
			{Key: "in_prog", Value: "$status.in_prog"},
			{Key: "in", Value: "$line.in"},
			{Key: "completed", Value: "$status.completed"},
		}
		return bson.A{
			match(append(slices.Clone(inAny), filter...)),
			field("$group", bson.D{{Key: "_id", Value: of}, {Key: "number", Value: field("$sum", 1)}}),
		}
	}
	var rows []typeTally
	// An index has the running jobs and another one the waiting jobs, so that no ended job is
	// read.
	pipeline := append(count(waiting), d.union(count(running)...), d.union(count(endedRetry)...))
	if err = d.aggregate(ctx, d.jobs, pipeline, &rows); err != nil {
		return nil, fmt.Errorf("counting records by type: %w", err)
	}
	counts := schedule.TypeCounts{}
	for _, row := range rows {
		row.addTo(counts)
	}
	return counts.Sorted(), nil
}

// typeTally is a number of documents that have some fields in common.
type typeTally struct {
	Of struct {
		Queue      any `bson:"queue"`
		Type       any `bson:"type"`
		InProgress any `bson:"in_prog"`
		In         any `bson:"in"`
		Completed  any `bson:"completed"`
	} `bson:"_id"`
	Number int `bson:"number"`
}

func (t *typeTally) addTo(counts schedule.TypeCounts) {
	queue, _ := t.Of.Queue.(string)
	jobType, _ := t.Of.Type.(string)
	in, _ := t.Of.In.(string)
	at, isKnown := schedulePlaces[place(in)]
	switch {
	case t.Of.Completed == true:
		at = schedule.Retrying
	case t.Of.InProgress == true:
		at = schedule.Running
	case !isKnown: // a legacy document that no claim has classified
		at = schedule.Ready
	}
	counts.Add(queue, jobType, at, t.Number)
}

// maxPriorities is the number of priorities of a queue that OldestReady compares.
const maxPriorities = 20

// OldestReady implements driver.Driver. It compares the first documents of the 20 highest
// priorities of a queue, with a command for each.
func (d *Driver) OldestReady(ctx context.Context, queues []string, now time.Time) (map[string]time.Time, error) {
	leave, err := d.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx = plain(ctx)
	oldest := map[string]time.Time{}
	for _, name := range queues {
		if err = d.oldestReady(ctx, name, oldest); err != nil {
			return nil, fmt.Errorf("finding the oldest ready record of queue %q: %w", name, err)
		}
	}
	if err = d.oldestDue(ctx, queues, now, oldest); err != nil {
		return nil, fmt.Errorf("finding the oldest due records of %d queues: %w", len(queues), err)
	}
	return oldest, nil
}

func (d *Driver) oldestReady(ctx context.Context, queue string, oldest map[string]time.Time) error {
	filter := d.inQueue(queue, append(slices.Clone(waiting), bson.E{Key: "line.in", Value: inReady})...)
	fields := bson.D{{Key: "time_info", Value: 1}, {Key: "line.priority", Value: 1}}
	for n := range maxPriorities {
		var first struct {
			TimeInfo amboy.JobTimeInfo `bson:"time_info"`
			Line     line              `bson:"line"`
		}
		err := d.jobs.FindOne(ctx, filter, options.FindOne().SetSort(inRank).SetProjection(fields)).Decode(&first)
		if errors.Is(err, mongo.ErrNoDocuments) {
			return nil
		}
		if err != nil {
			return err
		}
		driver.SetOldest(oldest, queue, first.TimeInfo)
		if n > 0 {
			filter = filter[:len(filter)-1]
		}
		filter = append(filter, bson.E{Key: "line.priority", Value: field("$lt", first.Line.Priority)})
	}
	return nil
}

// oldestDue compares the scheduled documents whose time has come, with one command.
func (d *Driver) oldestDue(ctx context.Context, queues []string, now time.Time, oldest map[string]time.Time) error {
	var due []struct {
		Group    string              `bson:"group"`
		TimeInfo amboy.JobTimeInfo   `bson:"time_info"`
		Line     struct{ In string } `bson:"line"`
	}
	cursor, err := d.jobs.Find(ctx, field("line.due", append(exist(true), bson.E{Key: "$lte", Value: now})), options.Find().
		SetSort(field("line.due", 1)).SetLimit(driver.MaxOverdue).
		SetProjection(bson.D{{Key: "_id", Value: 0}, {Key: "group", Value: 1}, {Key: "time_info", Value: 1}, {Key: "line.in", Value: 1}}))
	if err == nil {
		err = cursor.All(ctx, &due)
	}
	for _, one := range due {
		if !d.opts.Grouped {
			one.Group = ""
		}
		if one.Line.In == string(inScheduled) && slices.Contains(queues, one.Group) {
			driver.SetOldest(oldest, one.Group, one.TimeInfo)
		}
	}
	return err
}

// Unfinished implements driver.Driver. The server skips from one queue to the next in its
// indexes.
func (d *Driver) Unfinished(ctx context.Context) ([]string, error) {
	leave, err := d.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx = plain(ctx)
	var found []struct {
		Queue any `bson:"_id"`
	}
	distinct := func(filter bson.D) bson.A {
		if !d.opts.Grouped {
			return bson.A{match(filter), field("$limit", 1), field("$project", field("_id", 1))}
		}
		return bson.A{match(all(anyQueue, filter)), field("$group", field("_id", "$group"))}
	}
	pipeline := append(distinct(waiting), d.union(distinct(running)...), d.union(distinct(endedRetry)...))
	if err = d.aggregate(ctx, d.jobs, pipeline, &found); err != nil {
		return nil, fmt.Errorf("querying queues with unfinished records: %w", err)
	}
	names := map[string]bool{}
	for _, one := range found {
		name, _ := one.Queue.(string)
		if !d.opts.Grouped {
			name = ""
		}
		names[name] = true
	}
	return slices.Sorted(maps.Keys(names)), nil
}
