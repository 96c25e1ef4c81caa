package mongodb

import (
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/typelimit"
)

const (
	// timedBatch is the maximum number of due documents that one claim makes ready, and
	// of expired documents that it claims.
	timedBatch = 200
	// fewQueues is the number of queues up to which a claim queries the candidates of
	// each queue. For more queues it first queries which of them have candidates.
	fewQueues = 8
	// busyBatch is the maximum number of queues whose candidates one round of a claim queries
	// after that.
	busyBatch = 50
)

// view holds the results of a claim's queries.
type view struct {
	ready    map[string][]*document // candidates by queue, in the order in which they should run
	full     map[string]bool        // the queues that may have more candidates
	passed   []passed               // candidates passed over in favor of others
	expired  []*document
	due      []*document
	controls map[string]driver.Control
	nextDue  time.Time
	expiries []expiry // the next expiry times
	// timeCame is true if a document is due or has expired.
	timeCame bool
	busy     []string
	// batch are the queues whose candidates were queried, and others are the further queues
	// with candidates.
	batch, others []driver.Demand
	kinds         []string // kinds of ready documents that were not known before the query
	// unmarked are ready documents that must be excluded, but whose line shows another
	// kind or none.
	unmarked []*document
	// limited holds the queues with ready documents of types that have no room.
	limited map[string]bool
	// refused are types with a rate that have ready documents and no room, by queue.
	refused []key
	// moreKinds is true if there may be more unknown kinds.
	moreKinds bool
	asked     []string // the queues whose candidates were queried
}

// claimQuery builds and runs the queries of a claim.
type claimQuery struct {
	*Driver
	req    driver.ClaimRequest
	now    time.Time // as stored
	factor int       // by which the window exceeds the number of wanted records
	queues bson.A
	// windows are the numbers of candidates to query, by queue.
	windows map[string]int
	// wanted are the numbers of records that may be claimed, by queue.
	wanted map[string]int
	except kindSet
	// rooms are what the limits of types leave, by queue that has some.
	rooms map[string]*typelimit.Room
	// unread holds the queues for which it was not read what these limits leave.
	unread map[string]bool
	began  time.Duration // when the claim began, by the driver's clock
	// avoids are the numbers of documents to leave alone, by queue.
	avoids map[string]int
}

// execute runs the queries of a claim: one command, a second one if there are many queues of which some
// have candidates, and one more if documents are due or have expired.
func (l *claimQuery) execute(ctx context.Context) (*view, error) {
	v, err := l.query(ctx)
	if err == nil && v.timeCame {
		v.nextDue, v.expiries, v.expired = time.Time{}, nil, nil
		err = l.run(ctx, l.times(), v)
	}
	return v, err
}

// query runs the queries of a claim, except for the documents that are due or have expired.
func (l *claimQuery) query(ctx context.Context) (*view, error) {
	l.avoids = map[string]int{}
	docs, _ := l.avoided.at(l.began)
	for k := range docs {
		l.avoids[k.queue]++
	}
	v := &view{ready: map[string][]*document{}, full: map[string]bool{}, limited: map[string]bool{}, controls: map[string]driver.Control{}}
	branches := l.nextTimes()
	few := len(l.req.Queues) <= fewQueues
	if few {
		v.batch = l.req.Queues
		return v, l.findReady(ctx, branches, v.batch, l.req.Limit, v)
	}
	branches = append(branches, l.busy()...)
	if err := l.run(ctx, branches, v); err != nil || len(v.busy) == 0 {
		return v, err
	}
	providers := l.divide(v)
	// With many queues, each does not have to provide all wanted records.
	each := max(1, min(l.req.Limit, 4*l.req.Limit/max(1, providers)))
	return v, l.findReady(ctx, nil, v.batch, each, v)
}

// divide divides the queues with candidates into a batch and others. It returns the number of
// queues of the batch that may provide records: of stopped ones only the controls are read.
func (l *claimQuery) divide(v *view) (providers int) {
	busy := map[string]bool{}
	for _, queue := range v.busy {
		busy[queue] = true
	}
	for _, demand := range l.req.Queues {
		switch {
		case !busy[demand.Queue] || demand.Limit == 0:
		case l.limits.isStopped(demand.Queue):
			v.batch = append(v.batch, demand)
		case providers < busyBatch:
			v.batch = append(v.batch, demand)
			providers++
		default:
			v.others = append(v.others, demand)
		}
	}
	return providers
}

// findReady queries the candidates of some queues together with other branches.
func (l *claimQuery) findReady(ctx context.Context, others []branch, demands []driver.Demand, most int, v *view) error {
	for range kindRounds {
		v.asked = nil
		err := l.run(ctx, append(others, l.candidates(demands, most, v)...), v)
		if err != nil {
			return err
		}
		if len(v.kinds) == 0 {
			l.sort(v)
			return nil
		}
		// There are candidates of kinds that the query did not name.
		l.kinds.add(v.kinds...)
		v.kinds, v.unmarked, v.ready, v.limited, others = nil, nil, map[string][]*document{}, map[string]bool{}, nil
	}
	v.moreKinds = true
	return nil
}

// branch is a pipeline whose results are added to those of others. It begins with a match
// stage.
type branch struct {
	collection string
	stages     bson.A
	hinted     bool // Options.Hint applies to it
}

// run runs branches with one command. A hint applies only to the first branch of a
// command, so each hinted branch has its own command; the other branches are added to one
// of them.
func (l *claimQuery) run(ctx context.Context, branches []branch, v *view) error {
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
	if hint == nil {
		return l.pipeBranches(ctx, branches, visit)
	}
	pipeline := branches[0].stages
	for _, b := range branches[1:] {
		pipeline = append(pipeline, union(b.collection, b.stages...))
	}
	return l.pipeHinted(ctx, pipeline, visit, hint)
}

// ofJobs returns a branch over the jobs.
func (l *claimQuery) ofJobs(filter, sort bson.D, limit int, result bson.D) branch {
	return branch{collection: l.jobs.Name(), stages: bson.A{
		match(filter),
		bson.D{{Key: "$sort", Value: sort}},
		bson.D{{Key: "$limit", Value: limit}},
		result,
	}}
}

// inQueues returns a filter for the documents of the requested queues.
func (l *claimQuery) inQueues(and ...bson.E) bson.D {
	if !l.opts.Grouped {
		return and
	}
	return append(and, bson.E{Key: "group", Value: field("$in", l.queues)})
}

// nextTimes returns the branches that find the first times at which a document is due or expires: half as
// many as times returns, because a server pays for each as much as for the candidates. In a group,
// they also find what has expired: a document of another queue, which no process serves, would make each
// claim ask again.
func (l *claimQuery) nextTimes() []branch {
	branches := []branch{l.ofJobs(exists("line.due"), field("line.due", 1), 1, project("first_due", "$line.due"))}
	if l.opts.Grouped {
		return append(branches, l.expirations()...)
	}
	return append(branches, l.expiries(exists("line.expires")))
}

// times returns the branches for documents that are due or have expired, and for the next
// such times.
func (l *claimQuery) times() []branch {
	return append([]branch{
		{collection: l.jobs.Name(), stages: bson.A{
			match(field("line.due", bson.D{{Key: "$exists", Value: true}, {Key: "$lte", Value: l.now}})),
			bson.D{{Key: "$sort", Value: field("line.due", 1)}},
			bson.D{{Key: "$limit", Value: l.most()}},
			bson.D{{Key: "$project", Value: withoutJob}},
			project("due", "$$ROOT"),
		}},
		l.ofJobs(l.unexpired(field("line.due", bson.D{{Key: "$exists", Value: true}, {Key: "$gt", Value: l.now}})),
			field("line.due", 1), 1, project("next_due", "$line.due")),
	}, l.expirations()...)
}

// expirations returns the branches for documents that have expired, and for the next that will.
func (l *claimQuery) expirations() []branch {
	return []branch{
		l.ofJobs(l.inQueues(bson.E{Key: "line.expires", Value: bson.D{{Key: "$exists", Value: true}, {Key: "$lt", Value: l.now}}}),
			field("line.expires", 1), l.most(), project("expired", "$$ROOT")),
		l.expiries(field("line.expires", bson.D{{Key: "$exists", Value: true}, {Key: "$gte", Value: l.now}})),
	}
}

// expiries returns the branch for the first expiry times of some documents. Those that are claimed now are
// skipped later, and there are at most Limit of them.
func (l *claimQuery) expiries(which bson.D) branch {
	return l.ofJobs(which, field("line.expires", 1), max(1, l.req.Limit+1),
		project("expires", bson.D{{Key: "_id", Value: "$_id"}, {Key: "at", Value: "$line.expires"}}))
}

// most returns the maximum number of documents that are due, or that have expired.
func (l *claimQuery) most() int {
	most := l.timedBatch
	for _, n := range l.avoids {
		most += n // which may be the first
	}
	return most
}

// unexpired excludes expired documents, which are claimed before they are due.
func (l *claimQuery) unexpired(filter bson.D) bson.D {
	return append(filter, either(field("line.expires", nil), field("line.expires", field("$gte", l.now)))...)
}

// candidates returns the branches for the ready documents of some queues, and for the
// queues' controls.
func (l *claimQuery) candidates(demands []driver.Demand, most int, v *view) []branch {
	var branches []branch
	keys := bson.A{}
	for _, demand := range demands {
		n := min(demand.Limit, most)
		if (demand.Queue != "" && !l.opts.Grouped) || n <= 0 {
			continue
		}
		keys = append(keys, controlKey(demand.Queue))
		v.asked = append(v.asked, demand.Queue)
		if l.limits.isStopped(demand.Queue) {
			continue
		}
		l.wanted[demand.Queue] = n + l.avoids[demand.Queue]
		l.windows[demand.Queue] = max(n*l.factor, l.opts.ClaimWindow) + l.avoids[demand.Queue]
		if len(l.except) > 0 || l.rooms[demand.Queue] != nil {
			branches = append(branches, l.candidatesOfKinds(demand.Queue)...)
			branches = append(branches, l.limitedTypes(demand.Queue)...)
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

// first returns the stages that find the first documents of a queue.
func (l *claimQuery) first(queue string, which bson.D) bson.A {
	stages := bson.A{
		match(l.inQueue(queue, which...)),
		bson.D{{Key: "$sort", Value: inRank}},
		bson.D{{Key: "$limit", Value: l.windows[queue]}},
	}
	if l.windows[queue] > l.wanted[queue] {
		// Most bodies would not be used.
		stages = append(stages, bson.D{{Key: "$project", Value: withoutJob}})
	}
	return append(stages, project("ready", "$$ROOT"))
}

// ready is the filter for documents that a claim may take.
var ready = bson.D{
	{Key: "status.completed", Value: false},
	{Key: "status.in_prog", Value: false},
	{Key: "line.in", Value: inReady},
}

// busy returns the branch that finds which of many queues have ready documents.
func (l *claimQuery) busy() []branch {
	return []branch{{collection: l.jobs.Name(), stages: bson.A{
		match(l.inQueues(append(slices.Clip(ready), l.except.others(nil)...)...)),
		bson.D{{Key: "$group", Value: field("_id", "$group")}},
		project("busy", "$_id"),
	}}}
}

// add adds a result to the view.
func (v *view) add(raw bson.Raw, l *claimQuery) {
	elements, err := raw.Elements()
	if err != nil || len(elements) == 0 {
		return
	}
	value := elements[0].Value()
	switch elements[0].Key() {
	case "ready":
		doc := decode(value.Document())
		l.orders.observe(doc.Order)
		if l.except.leaves(doc) || l.rooms[doc.Group].Left(doc.Type) <= 0 {
			v.limited[doc.Group] = v.limited[doc.Group] || !l.except.leaves(doc)
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
	case "first_due":
		v.nextDue = value.Time().UTC()
		v.timeCame = v.timeCame || !v.nextDue.After(l.now)
	case "next_due":
		v.nextDue = value.Time().UTC()
	case "expires":
		var next expiry
		if bson.Unmarshal(value.Document(), &next) == nil {
			v.expiries = append(v.expiries, next)
			v.timeCame = v.timeCame || next.At.Before(l.now)
		}
	case "kind":
		kind, _ := value.Document().Lookup("kind").StringValueOK()
		v.kinds = append(v.kinds, kind)
	case "refused":
		queue, _ := value.Document().Lookup("queue").StringValueOK()
		jobType, _ := value.Document().Lookup("type").StringValueOK()
		if l.rooms[queue] != nil {
			v.refused = append(v.refused, key{queue, jobType})
		}
		v.limited[queue] = true
	case "limited":
		queue, _ := value.StringValueOK()
		v.limited[queue] = true
	case "busy":
		queue, _ := value.StringValueOK()
		v.busy = append(v.busy, queue)
	}
}

// next returns when more may become claimable, except for what was claimed.
func (v *view) next(claimed []*given) time.Time {
	for _, e := range v.expiries {
		if slices.ContainsFunc(claimed, func(g *given) bool { return g.doc.id == e.ID }) {
			continue
		}
		after := e.At.Add(time.Millisecond).UTC() // at its expiry time it may still start
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
