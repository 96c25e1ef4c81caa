package mongodb

import (
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy/queue/driver"
)

const (
	// timedAtOnce is the number of documents, at most, that one claim makes ready
	// because they are due, and that it claims because they have expired.
	timedAtOnce = 1000
	// fewQueues is the number of queues up to which a claim asks for the
	// candidates of each. Of more it looks first which of them have any.
	fewQueues = 8
	// busyAtOnce is the number of queues, at most, of which one claim asks for
	// candidates after that.
	busyAtOnce = 50
)

// view is what a claim sees.
type view struct {
	ready    map[string][]*document // by queue, in the order in which they run
	full     map[string]bool        // the queues of which there may be more
	passed   []passed               // those of them that others come in the way of
	expired  []*document
	due      []*document
	controls map[string]driver.Control
	nextDue  time.Time
	expiries []expiry // the next ones
	busy     []string
	kinds    []string // of ready documents, which the look did not know
	// unmarked are ready documents that are to be left, and have another kind in the line.
	unmarked []*document
	// moreKinds is true if there may be more of those kinds.
	moreKinds bool
}

// look is what a claim asks for.
type look struct {
	*Driver
	req    driver.ClaimRequest
	now    time.Time // as it is stored
	factor int       // by which the window is wider than what is wanted
	queues bson.A
	asked  []string // the queues whose candidates are wanted
	// windows are how many candidates it asks for, by queue.
	windows map[string]int
	except  kindSet
}

// see asks for what a claim needs to know: with one command; and another one
// where there are many queues, of which some have work.
func (l *look) see(ctx context.Context) (*view, error) {
	v := &view{ready: map[string][]*document{}, full: map[string]bool{}, controls: map[string]driver.Control{}}
	branches := l.times()
	few := len(l.req.Queues) <= fewQueues
	if few {
		return v, l.findReady(ctx, branches, l.req.Queues, l.req.Limit, v)
	}
	branches = append(branches, l.busy()...)
	if err := l.run(ctx, branches, v); err != nil || len(v.busy) == 0 {
		return v, err
	}
	var demands []driver.Demand
	for _, demand := range l.req.Queues {
		if len(without(v.busy, []string{demand.Queue})) < len(v.busy) && len(demands) < busyAtOnce {
			demands = append(demands, demand)
		}
	}
	// Where there are many of them each need not give all that is wanted.
	each := max(1, min(l.req.Limit, 4*l.req.Limit/len(demands)))
	return v, l.findReady(ctx, nil, demands, each, v)
}

// findReady asks for the candidates of some queues, and for what other branches find.
func (l *look) findReady(ctx context.Context, others []branch, demands []driver.Demand, most int, v *view) error {
	for range kindRounds {
		l.asked = nil
		err := l.run(ctx, append(others, l.candidates(demands, most)...), v)
		if err != nil {
			return err
		}
		if len(v.kinds) == 0 {
			l.sort(v)
			return nil
		}
		// There are candidates of kinds that it did not ask for.
		l.kinds.add(v.kinds...)
		v.kinds, v.unmarked, v.ready, others = nil, nil, map[string][]*document{}, nil
	}
	v.moreKinds = true
	return nil
}

// branch is a pipeline whose results are added to those of others. It begins with
// a match.
type branch struct {
	collection string
	stages     bson.A
	hinted     bool // Options.Hint is for it
}

// run asks for what branches find, with one command. As a hint holds for the first
// branch alone, each of those for which there is one has a command of its own, of
// which the others are part of the first.
func (l *look) run(ctx context.Context, branches []branch, v *view) error {
	visit := func(raw bson.Raw) { v.add(raw, l) }
	hint := l.hints.use(l.opts.Hint, time.Now())
	if hint != nil {
		var hinted, others []branch
		for _, b := range branches {
			if b.hinted {
				hinted = append(hinted, b)
			} else {
				others = append(others, b)
			}
		}
		for len(hinted) > 1 {
			last := hinted[len(hinted)-1]
			if err := l.pipeHinted(ctx, last.stages, visit, hint); err != nil {
				return err
			}
			hinted = hinted[:len(hinted)-1]
		}
		if len(hinted) == 0 {
			hint = nil
		}
		branches = slices.Concat(hinted, others)
	}
	pipeline := branches[0].stages
	for _, b := range branches[1:] {
		pipeline = append(pipeline, union(b.collection, b.stages...))
	}
	return l.pipeHinted(ctx, pipeline, visit, hint)
}

// ofJobs is a branch over the jobs.
func (l *look) ofJobs(filter, sort bson.D, limit int, result bson.D) branch {
	return branch{collection: l.jobs.Name(), stages: bson.A{
		match(filter),
		bson.D{{Key: "$sort", Value: sort}},
		bson.D{{Key: "$limit", Value: limit}},
		result,
	}}
}

// inQueues is a filter for the documents of the queues that are asked for.
func (l *look) inQueues(and ...bson.E) bson.D {
	if !l.opts.Grouped {
		return and
	}
	return append(and, bson.E{Key: "group", Value: field("$in", l.queues)})
}

// times are the branches for what has come about because of the time, and for
// when there will be more.
func (l *look) times() []branch {
	return []branch{
		{collection: l.jobs.Name(), stages: bson.A{
			match(field("line.due", bson.D{{Key: "$exists", Value: true}, {Key: "$lte", Value: l.now}})),
			bson.D{{Key: "$sort", Value: field("line.due", 1)}},
			bson.D{{Key: "$limit", Value: timedAtOnce}},
			bson.D{{Key: "$project", Value: withoutJob}},
			project("due", "$$ROOT"),
		}},
		l.ofJobs(l.unexpired(field("line.due", bson.D{{Key: "$exists", Value: true}, {Key: "$gt", Value: l.now}})),
			field("line.due", 1), 1, project("next_due", "$line.due")),
		l.ofJobs(l.inQueues(bson.E{Key: "line.expires", Value: bson.D{{Key: "$exists", Value: true}, {Key: "$lt", Value: l.now}}}),
			field("line.expires", 1), timedAtOnce, project("expired", "$$ROOT")),
		// Those that are claimed now are left out, and there are no more of them
		// than this.
		l.ofJobs(field("line.expires", bson.D{{Key: "$exists", Value: true}, {Key: "$gte", Value: l.now}}),
			field("line.expires", 1), max(1, l.req.Limit+1),
			project("expires", bson.D{{Key: "_id", Value: "$_id"}, {Key: "at", Value: "$line.expires"}})),
	}
}

// unexpired leaves out those that have expired, which are claimed before they are
// due.
func (l *look) unexpired(filter bson.D) bson.D {
	return append(filter, either(field("line.expires", nil), field("line.expires", field("$gte", l.now)))...)
}

// candidates are the branches for those of some queues that are ready, and for
// the queues' controls.
func (l *look) candidates(demands []driver.Demand, most int) []branch {
	var branches []branch
	keys := bson.A{}
	for _, demand := range demands {
		n := min(demand.Limit, most)
		if (demand.Queue != "" && !l.opts.Grouped) || n <= 0 {
			continue
		}
		keys = append(keys, controlKey(demand.Queue))
		l.asked = append(l.asked, demand.Queue)
		if l.limits.isPaused(demand.Queue) {
			continue
		}
		l.windows[demand.Queue] = max(n*l.factor, l.opts.ClaimWindow)
		if len(l.except) > 0 {
			branches = append(branches, l.candidatesOfKinds(demand.Queue)...)
			continue
		}
		branches = append(branches, branch{l.jobs.Name(), l.first(demand.Queue, ready), true})
	}
	if len(keys) == 0 {
		return nil
	}
	return append(branches, branch{collection: l.control.Name(), stages: bson.A{
		match(field("_id", field("$in", keys))),
		project("control", "$$ROOT"),
	}})
}

// first are the stages that find the first of the documents of a queue.
func (l *look) first(queue string, which bson.D) bson.A {
	stages := bson.A{
		match(l.inQueue(queue, which...)),
		bson.D{{Key: "$sort", Value: inRank}},
		bson.D{{Key: "$limit", Value: l.windows[queue]}},
	}
	if l.factor > 1 {
		stages = append(stages, bson.D{{Key: "$project", Value: withoutJob}})
	}
	return append(stages, project("ready", "$$ROOT"))
}

// ready are the conditions for those that a claim may take.
var ready = bson.D{
	{Key: "status.completed", Value: false},
	{Key: "status.in_prog", Value: false},
	{Key: "line.in", Value: inReady},
}

// busy is the branch that tells which of many queues have some that are ready.
func (l *look) busy() []branch {
	return []branch{{collection: l.jobs.Name(), stages: bson.A{
		match(l.inQueues(append(slices.Clip(ready), l.except.others(nil)...)...)),
		bson.D{{Key: "$group", Value: field("_id", "$group")}},
		project("busy", "$_id"),
	}}}
}

// add takes note of a result.
func (v *view) add(raw bson.Raw, l *look) {
	elements, err := raw.Elements()
	if err != nil || len(elements) == 0 {
		return
	}
	value := elements[0].Value()
	switch elements[0].Key() {
	case "ready":
		doc := decode(value.Document())
		l.orders.saw(doc.Order)
		if l.except.leaves(doc) {
			v.unmarked = append(v.unmarked, doc)
			return
		}
		v.ready[doc.Group] = append(v.ready[doc.Group], doc)
		v.full[doc.Group] = len(v.ready[doc.Group]) >= l.windows[doc.Group]
	case "expired":
		v.expired = append(v.expired, decode(value.Document()))
	case "due":
		v.due = append(v.due, decode(value.Document()))
	case "control":
		var stored controlDocument
		if bson.Unmarshal(value.Document(), &stored) == nil {
			v.controls[stored.Queue] = stored.control()
		}
	case "next_due":
		v.nextDue = value.Time().UTC()
	case "expires":
		var next expiry
		if bson.Unmarshal(value.Document(), &next) == nil {
			v.expiries = append(v.expiries, next)
		}
	case "kind":
		kind, _ := value.Document().Lookup("kind").StringValueOK()
		v.kinds = append(v.kinds, kind)
	case "busy":
		queue, _ := value.StringValueOK()
		v.busy = append(v.busy, queue)
	}
}

// next is when there may be more to claim, but for what was claimed.
func (v *view) next(claimed []*given) time.Time {
	for _, e := range v.expiries {
		if slices.ContainsFunc(claimed, func(g *given) bool { return g.doc.id == e.ID }) {
			continue
		}
		after := e.At.Add(time.Millisecond).UTC() // at that time it may still start
		if v.nextDue.IsZero() || after.Before(v.nextDue) {
			return after
		}
		break
	}
	return v.nextDue
}

// expiry is when a document expires.
type expiry struct {
	ID string    `bson:"_id"`
	At time.Time `bson:"at"`
}
