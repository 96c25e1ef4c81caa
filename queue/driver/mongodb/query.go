package mongodb

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/scope"
)

// selection is a Query translated for the server.
type selection struct {
	query driver.Query
	now   time.Time
	// queues selects the documents of the query's queues. It is empty if the query names
	// none.
	queues bson.D
	// filter selects the documents that may match the query.
	filter bson.A
	// id is the query's ID pattern, and ids are the job IDs that it names. Both are nil
	// if the query has none.
	id  *regexp.Regexp
	ids map[string]bool
	// none is true if no document can match.
	none bool
	// bodies selects by the bodies of documents, if its field Body is set.
	bodies driver.PageRequest
}

// newSelection translates a query at a time. To find jobs by ID in any queue it reads the
// names of the queues, because the indexes begin with the queue.
func (d *Driver) newSelection(ctx context.Context, q driver.Query, now time.Time) (*selection, error) {
	if q.DependsOn != "" && len(q.Queues) == 0 {
		return nil, fmt.Errorf("invalid query: DependsOn needs one of Queues (is %q)", q.DependsOn)
	}
	s := &selection{query: q, now: now.Truncate(time.Millisecond)}
	ids := s.namedIDs()
	if d.opts.Grouped && len(q.Queues) == 0 && len(ids) > 0 {
		queues, err := d.queueNames(ctx)
		if err != nil {
			return nil, err
		}
		s.query.Queues, s.none = queues, len(queues) == 0
	}
	s.addQueues(d.opts.Grouped)
	s.addJobIDs(ids, d.opts.Grouped)
	s.addPattern(d.opts.Grouped)
	s.addStates()
	if len(q.Types) > 0 {
		s.and("type", bson.D{{Key: "$in", Value: q.Types}})
	}
	for _, tag := range q.Tags {
		s.and("tags", tag)
	}
	switch {
	case q.Holding && q.Scope != "":
		s.addHolders(q.Scope)
	case q.Holding:
		s.filter = append(s.filter, exists("scopes"), exists("scopes.0"))
	case q.Scope != "":
		s.addScope(q.Scope)
	}
	if q.DependsOn != "" {
		s.filter = append(s.filter, field(edges, q.DependsOn), exists(edges+".0")) // implies the partial filter of the index
	}
	s.addPart("_id", q.IDPart) // contains the job's ID
	s.addPart("type", q.TypePart)
	s.addPart("tags", q.TagPart)
	s.addPart("status.errors", q.Error)
	s.addRange("time_info.created", q.Created)
	s.addRange("time_info.wait_until", q.Due)
	if s.hasEnd() {
		s.filter = append(s.filter, hasEnded) // the index of the ends has only the ended jobs
	}
	s.addRange("time_info.end", q.Ended)
	return s, nil
}

// addScope selects the documents that need a scope, held or not.
func (s *selection) addScope(name string) {
	s.or(field("required_scopes", name), field("enqueue_scopes", name))
}

// addHolders selects the documents that hold a scope.
func (s *selection) addHolders(name string) {
	key, _ := scope.Key(name)
	s.and("scopes", field("$in", holding([]string{key})))
	if isLimited(key) {
		s.addScope(name) // others may hold the key with another limit
	}
}

// hasEnd reports whether the query bounds when a job ended.
func (s *selection) hasEnd() bool { return s.query.Ended != (driver.TimeRange{}) }

// addPart selects documents that may have a part in a field. The server ignores the case of letters
// beyond ASCII too.
func (s *selection) addPart(path, part string) {
	switch {
	case part == "":
	case utf8.ValidString(part):
		s.and(path, primitive.Regex{Pattern: quoted(part), Options: "i"})
	default:
		s.none = true
	}
}

// edges is the path of the IDs of a document's dependencies.
const edges = "dependency.edges"

// queueNames returns the names of the queues that have documents. The server skips from
// one name to the next in an index.
func (d *Driver) queueNames(ctx context.Context) ([]string, error) {
	var found []struct {
		Queue any `bson:"_id"`
	}
	err := d.aggregate(ctx, d.jobs, bson.A{match(anyQueue), field("$group", field("_id", "$group"))}, &found)
	if err != nil {
		return nil, fmt.Errorf("reading the names of the queues: %w", err)
	}
	var names []string
	for _, one := range found {
		if name, ok := one.Queue.(string); ok {
			names = append(names, name)
		}
	}
	return names, nil
}

// anyQueue selects all documents of a collection with many queues. Servers use an index
// that begins with the queue for filters that name only the queue.
var anyQueue = field("group", field("$gte", ""))

func field(path string, value any) bson.D { return bson.D{{Key: path, Value: value}} }

func exist(is bool) bson.D { return field("$exists", is) }

// either returns a filter for documents that match one of several filters.
func either(alternatives ...bson.D) bson.D { return field("$or", alternatives) }

func (s *selection) and(path string, value any) { s.filter = append(s.filter, field(path, value)) }

func (s *selection) or(alternatives ...bson.D) { s.filter = append(s.filter, either(alternatives...)) }

// with returns the filter with further conditions.
func (s *selection) with(more ...bson.D) bson.D {
	all := slices.Clone(s.filter)
	for _, one := range more {
		if len(one) > 0 {
			all = append(all, one)
		}
	}
	if len(all) == 0 {
		return bson.D{}
	}
	return field("$and", all)
}

func (s *selection) addQueues(grouped bool) {
	queues := s.query.Queues
	switch {
	case !grouped:
		s.none = len(queues) > 0 && !slices.Contains(queues, "")
		return
	case len(queues) == 1:
		s.queues = field("group", queues[0])
	case len(queues) > 1:
		s.queues = field("group", field("$in", queues))
	case len(s.query.States) > 0 || s.hasEnd():
		s.filter = append(s.filter, anyQueue)
		return
	default:
		return
	}
	s.filter = append(s.filter, s.queues)
}

// The parts of the filters for states. Legacy documents, which have no line, are
// classified by their other fields.
var (
	hasEnded    = field("status.completed", true)
	endedRetry  = bson.D{{Key: "status.completed", Value: true}, {Key: "retry_info.retryable", Value: true}, {Key: "retry_info.needs_retry", Value: true}}
	endedFinal  = bson.D{hasEnded[0], {Key: "$or", Value: []bson.D{field("retry_info.retryable", field("$ne", true)), field("retry_info.needs_retry", field("$ne", true))}}}
	waiting     = bson.D{{Key: "status.completed", Value: false}, {Key: "status.in_prog", Value: false}}
	running     = bson.D{{Key: "status.completed", Value: false}, {Key: "status.in_prog", Value: true}}
	inNoOutcome = field("status.outcome", field("$nin", []amboy.Outcome{amboy.OutcomeCanceled, amboy.OutcomeExpired}))
	hasErrors   = either(field("status.err_count", field("$gt", 0)), field("status.errors.0", exist(true)))
	hasNone     = bson.D{{Key: "status.err_count", Value: field("$not", field("$gt", 0))}, {Key: "status.errors.0", Value: exist(false)}}
)

func all(parts ...bson.D) bson.D { return field("$and", parts) }

// stateFilter returns the filter for documents in a state, as StateOf derives it.
func (s *selection) stateFilter(state amboy.JobState) bson.D {
	isStale := field("time_info.dispatch_by", field("$lt", s.now))
	notStale := field("time_info.dispatch_by", field("$not", field("$lt", s.now)))
	isEarly := field("time_info.wait_until", field("$gt", s.now))
	notEarly := field("time_info.wait_until", field("$not", field("$gt", s.now)))
	in := func(places ...any) bson.D { return field("line.in", field("$in", places)) }
	switch state {
	case amboy.StateScheduled:
		return all(waiting, notStale, isEarly, in(inScheduled, inReady, inHandover, nil))
	case amboy.StatePending:
		return all(waiting, notStale, notEarly, in(inScheduled, inReady, inHandover, nil))
	case amboy.StateBlocked:
		return all(waiting, notStale, in(inPostponed, inScope, inEdges))
	case amboy.StateParked:
		return all(waiting, field("line.in", inParked))
	case amboy.StateRunning:
		return running
	case amboy.StateRetrying:
		return endedRetry
	case amboy.StateSucceeded:
		return all(endedFinal, inNoOutcome, hasNone)
	case amboy.StateFailed:
		return all(endedFinal, inNoOutcome, hasErrors)
	case amboy.StateCanceled:
		return all(endedFinal, field("status.outcome", amboy.OutcomeCanceled))
	case amboy.StateExpired:
		return either(all(endedFinal, field("status.outcome", amboy.OutcomeExpired)),
			all(waiting, isStale, field("line.in", field("$ne", inParked))))
	default:
		return nil // no document is ever in this state
	}
}

func (s *selection) addStates() {
	if len(s.query.States) == 0 {
		return
	}
	var filters []bson.D
	for _, state := range s.query.States {
		if filter := s.stateFilter(state); filter != nil {
			filters = append(filters, filter)
		}
	}
	if len(filters) == 0 {
		s.none = true
		return
	}
	s.or(filters...)
}

func (s *selection) addRange(path string, r driver.TimeRange) {
	bounds := bson.D{}
	if !r.From.IsZero() {
		bounds = append(bounds, bson.E{Key: "$gte", Value: ceilMillisecond(r.From)})
	}
	if !r.To.IsZero() {
		bounds = append(bounds, bson.E{Key: "$lt", Value: ceilMillisecond(r.To)})
	}
	if len(bounds) > 0 {
		s.and(path, bounds)
	}
}

// namedIDs returns the IDs that the query names without a pattern, or nil if there are
// none.
func (s *selection) namedIDs() []string {
	switch pattern := s.query.ID; {
	case len(s.query.JobIDs) > 0:
		return s.query.JobIDs
	case pattern == "" || strings.ContainsAny(pattern, "*?"):
		return nil
	default:
		return []string{pattern}
	}
}

// addJobIDs selects by the job's ID, which the latest attempt has, or by the base ID of
// an attempt, or, if both are absent, by the name under which the legacy library stored
// the job.
func (s *selection) addJobIDs(ids []string, grouped bool) {
	if len(ids) == 0 {
		return
	}
	queues := s.query.Queues
	if !grouped {
		queues = []string{""}
	}
	s.ids = map[string]bool{}
	var valid, names bson.A
	var endings []bson.D
	size := 0
	for _, id := range ids {
		if s.ids[id] || !utf8.ValidString(id) {
			continue // not a possible ID
		}
		s.ids[id] = true
		valid = append(valid, id)
		endings = append(endings, field("_id", primitive.Regex{Pattern: `(^|\.)` + quoted(id) + `\z`, Options: "s"}))
		for _, queue := range queues {
			if size += len(queue) + len(id) + 16; size > maxNameBytes {
				break
			}
			names = append(names, driver.RecordName(queue, id, amboy.JobRetryInfo{}))
		}
	}
	s.none = s.none || len(valid) == 0
	byName := field("_id", field("$in", names))
	if size > maxNameBytes {
		byName = bson.D{{Key: "order", Value: nil}, {Key: "$or", Value: endings}}
	}
	s.orInQueues(field("job_id", field("$in", valid)), field("retry_info.base_job_id", field("$in", valid)), byName)
}

// maxNameBytes bounds the names in a query: a document has at most 16 MiB. With more, the documents of
// the legacy library, which alone have no order, are selected by the ends of their names.
const maxNameBytes = 4 << 20

// addPattern selects by a pattern of the job's ID, in the fields that addJobIDs uses.
func (s *selection) addPattern(grouped bool) {
	pattern := s.query.ID
	if pattern == "" {
		return
	}
	if !utf8.ValidString(pattern) {
		s.none = true
		return
	}
	s.id = regexp.MustCompile("(?s)" + anchored(pattern))
	if len(s.ids) > 0 {
		return // the IDs narrow the query enough
	}
	pattern = coarse(pattern)
	like := primitive.Regex{Pattern: anchored(pattern), Options: "s"}
	nameLike := like
	switch {
	case grouped && len(s.query.Queues) == 1:
		nameLike.Pattern = "^" + quoted(s.query.Queues[0]+".") + matching(pattern) + `\z`
	case grouped:
		nameLike.Pattern = `\.` + matching(pattern) + `\z`
	}
	s.orInQueues(field("job_id", like), field("retry_info.base_job_id", like), field("_id", nameLike))
}

// orInQueues is like or, for alternatives that have an index each. It repeats the queues in each of them,
// because servers do not use a partial index for an alternative without the index's first field.
func (s *selection) orInQueues(alternatives ...bson.D) {
	for i, one := range alternatives {
		alternatives[i] = append(slices.Clip(s.queues), one...)
	}
	s.or(alternatives...)
}

// anchored returns the regular expression for whole strings that match a pattern, in
// which * matches any characters, ? matches one, and all others match themselves.
func anchored(pattern string) string { return "^" + matching(pattern) + `\z` }

// maxStars is the maximum number of stars in a pattern that the server matches. It
// backtracks for each star, so many stars would take too long.
const maxStars = 3

// coarse returns a pattern with few stars that matches everything that the given pattern
// matches, and more: it keeps only the beginning and the end.
func coarse(pattern string) string {
	if strings.Count(pattern, "*") <= maxStars {
		return pattern
	}
	return pattern[:strings.IndexByte(pattern, '*')] + pattern[strings.LastIndexByte(pattern, '*'):]
}

// matching returns the regular expression for a part of a string that matches a pattern.
func matching(pattern string) string {
	var expression strings.Builder
	for pattern != "" {
		literal := pattern
		if i := strings.IndexAny(pattern, "*?"); i >= 0 {
			literal = pattern[:i]
		}
		expression.WriteString(quoted(literal))
		pattern = pattern[len(literal):]
		switch {
		case strings.HasPrefix(pattern, "*"):
			expression.WriteString(".*")
		case strings.HasPrefix(pattern, "?"):
			expression.WriteString(".")
		}
		if pattern != "" {
			pattern = pattern[1:]
		}
	}
	return expression.String()
}

// quoted returns the regular expression for a literal text. NUL is escaped because it
// would end the expression.
func quoted(text string) string { return strings.ReplaceAll(regexp.QuoteMeta(text), "\x00", `\x00`) }

// isApproximate reports whether the filter selects more than the query, so that the driver must
// examine the documents.
func (s *selection) isApproximate() bool {
	return s.id != nil || s.ids != nil || s.hasPart() || s.query.Latest
}

// hasPart reports whether the query names a part of a field.
func (s *selection) hasPart() bool {
	return s.query.IDPart != "" || s.query.TypePart != "" || s.query.TagPart != "" || s.query.Error != ""
}

// selects reports whether the query selects a document that the filter selected.
func (s *selection) selects(doc *document) bool {
	return (s.id == nil || s.id.MatchString(doc.jobID())) &&
		(s.ids == nil || s.ids[doc.jobID()]) &&
		(s.query.IDPart == "" || driver.HasPart(doc.jobID(), s.query.IDPart)) &&
		(s.query.TypePart == "" || driver.HasPart(doc.Type, s.query.TypePart)) &&
		(s.query.TagPart == "" || slices.ContainsFunc(doc.Tags, func(tag string) bool { return driver.HasPart(tag, s.query.TagPart) })) &&
		(s.query.Error == "" || driver.HasPart(driver.LastError(doc.Status.Errors), s.query.Error)) &&
		(len(s.query.States) == 0 || slices.Contains(s.query.States, driver.StateOf(doc.record(), s.now)))
}
