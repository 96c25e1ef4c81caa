package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// readAtOnce is the maximum number of rows that one statement reads to find records.
const readAtOnce = 5000

// numbered replaces the question marks of a statement with numbered parameters.
func numbered(text string) string {
	var b strings.Builder
	n := 0
	for part := range strings.SplitSeq(text, "?") {
		if n > 0 {
			b.WriteString("$" + strconv.Itoa(n))
		}
		b.WriteString(part)
		n++
	}
	return b.String()
}

// outOfLine are the states whose records are all out of their lines, so that an index contains
// them without the others.
var outOfLine = []amboy.JobState{amboy.StateBlocked, amboy.StateParked, amboy.StateRetrying, amboy.StateFailed, amboy.StateCanceled}

// selection is a Query in SQL.
type selection struct {
	// condition holds for the selected records.
	table.Condition
	// few selects the sequence numbers of a few records that include all selected ones; nil if
	// all records are scanned, or those of base.
	few *table.Condition
	// maybeFew is used as few if it finds no more than readAtOnce records.
	maybeFew *table.Condition
	// base is the term of the partial index that is scanned.
	base string
	// bodies selects by the bodies of records, if its field Body is set.
	bodies driver.PageRequest
	// columns are what a page reads of each record: recordColumns or briefColumns.
	columns string
}

// inQueues selects by the names of queues.
const inQueues = "queue = ANY(ARRAY(SELECT id FROM {s}.queues WHERE name = ANY(?::text[])))"

// inAnyQueue is used for indexes that begin with the queue.
const inAnyQueue = "queue = ANY(ARRAY(SELECT id FROM {s}.queues))"

func newSelection(q driver.Query, now time.Time) (*selection, error) {
	if q.DependsOn != "" && len(q.Queues) == 0 {
		return nil, fmt.Errorf("invalid query: DependsOn needs one of Queues (is %q)", q.DependsOn)
	}
	s := &selection{base: "true", columns: recordColumns}
	s.addList(inQueues, q.Queues)
	s.addList("type = ANY(?::text[])", q.Types)
	s.addStates(q.States, table.InstantOf(now).Int64)
	if q.Scope != "" && !q.Holding {
		s.Add("(coalesce(scopes, '[]')::jsonb || coalesce(enqueue_scopes, '[]')::jsonb) @> to_jsonb(?::text)", exactly(q.Scope))
	}
	for _, tag := range q.Tags {
		s.Add("tags @> to_jsonb(?::text)", exactly(tag))
	}
	s.addPart("job_id", q.IDPart)
	s.addPart("type", q.TypePart)
	s.addPart("last_error", storable(q.Error)) // as it is stored
	if q.TagPart != "" {
		s.Add("tags IS NOT NULL AND EXISTS (SELECT 1 FROM jsonb_array_elements_text(tags) AS t (tag) WHERE strpos(lower(tag COLLATE \"C\"), ?) > 0)",
			exactly(driver.LowerPart(q.TagPart)))
	}
	s.AddRange("created", q.Created)
	s.AddRange("wait_until", q.Due)
	s.AddRange("ended", q.Ended)
	if q.Latest {
		s.Add("NOT replaced")
	}
	s.addWays(q)
	return s, nil
}

// startedInTime is the condition on running records that were not claimed because they had expired. Those
// take no scopes.
const startedInTime = "(dispatch_by IS NULL OR dispatch_by >= started)"

// addWays adds the conditions on records that use an index, and chooses the one to use.
func (s *selection) addWays(q driver.Query) {
	queues := table.Condition{}
	queues.Add(inAnyQueue)
	if len(q.Queues) > 0 {
		queues = table.Condition{}
		queues.Add(inQueues, storables(q.Queues))
	}
	numbers := func(term string, args ...any) *table.Condition {
		c := &table.Condition{}
		c.Add("SELECT seq FROM {s}.jobs WHERE "+queues.String()+" AND "+term, slices.Concat(queues.Args, args)...)
		return c
	}
	const anyAttempt = " AND (NOT replaced OR attempt IS NOT NULL)"
	if len(q.Tags) > 0 {
		s.maybeFew = numbers("tags IS NOT NULL AND tags @> ?::jsonb", table.Names(storables(q.Tags)))
	}
	switch {
	case q.Holding && q.Scope != "":
		s.Add("((place < 8 AND enqueue_scopes::jsonb @> to_jsonb(?::text)) OR (place = 6 AND scopes::jsonb @> to_jsonb(?::text) AND "+startedInTime+"))",
			exactly(q.Scope), exactly(q.Scope))
		s.few = numbers("NOT replaced AND job_id = ANY(ARRAY(SELECT job_id FROM {s}.scope_holders WHERE "+queues.String()+" AND scope >= ? AND scope < ?))",
			append(slices.Clone(queues.Args), exactly(usesFrom(q.Scope)), exactly(usesTo(q.Scope)))...)
	case q.Holding:
		s.Add("((place < 8 AND enqueue_scopes IS NOT NULL) OR (place = 6 AND scopes IS NOT NULL))")
		s.Add("(enqueue_scopes IS NOT NULL OR " + startedInTime + ")")
		s.few = numbers("NOT replaced AND (queue, job_id) IN (SELECT queue, job_id FROM {s}.scope_holders)")
	}
	if q.DependsOn != "" {
		s.few = &table.Condition{}
		s.few.Add("SELECT from_seq AS seq FROM {s}.edges WHERE "+queues.String()+" AND to_job = ?", append(slices.Clone(queues.Args), exactly(q.DependsOn))...)
		s.Add("seq IN ("+s.few.String()+")", s.few.Args...)
	}
	if q.ID != "" {
		pattern := likePattern(q.ID)
		s.Add("job_id LIKE ?", pattern)
		switch wildcard := strings.IndexAny(q.ID, "*?"); {
		case wildcard < 0:
			s.few = numbers("job_id = ?"+anyAttempt, exactly(q.ID))
		case wildcard > 0:
			prefix := q.ID[:wildcard]
			s.maybeFew = numbers("job_id >= ? AND job_id < ?"+anyAttempt, exactly(prefix), exactly(prefix+"\U0010FFFF"))
		}
	}
	if len(q.JobIDs) > 0 {
		s.Add("job_id = ANY(?::text[])", storables(q.JobIDs))
		s.few = numbers("job_id = ANY(?::text[])"+anyAttempt, storables(q.JobIDs))
	}
}

// exactly returns a text to compare with; NULL, which equals nothing, for one that PostgreSQL can't
// store.
func exactly(text string) pgtype.Text { return pgtype.Text{String: text, Valid: isStorable(text)} }

// storables returns those of some texts that PostgreSQL can store.
func storables(texts []string) []string {
	all := make([]string, 0, len(texts))
	for _, text := range texts {
		if isStorable(text) {
			all = append(all, text)
		}
	}
	return all
}

// addPart selects by a part of a column. In the collation C, the function lower changes ASCII
// letters only.
func (s *selection) addPart(column, part string) {
	if part != "" {
		s.Add("strpos(lower("+column+" COLLATE \"C\"), ?) > 0", exactly(driver.LowerPart(part)))
	}
}

func (s *selection) addList(term string, values []string) {
	if len(values) > 0 {
		s.Add(term, storables(values))
	}
}

func (s *selection) addStates(states []amboy.JobState, now int64) {
	if len(states) == 0 {
		return
	}
	s.AddStates(states, now)
	isInLine := func(state amboy.JobState) bool { return !slices.Contains(outOfLine, state) }
	switch {
	case !slices.ContainsFunc(states, isInLine):
		s.base = "line < 0"
	case len(states) == 1 && states[0] == amboy.StateRunning:
		s.few = &table.Condition{}
		s.few.Add("SELECT unnest(seqs) AS seq FROM {s}.leases")
	}
}

// likePattern converts a pattern of a Query to one of LIKE.
func likePattern(pattern string) pgtype.Text {
	return exactly(strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`, "*", "%", "?", "_").Replace(pattern))
}

// bound finds the last record that a page reads, so that each statement takes a short time.
func (s *selection) bound(ctx context.Context, d *Driver, on querier, at *table.Span) error {
	at.Until = table.Instant{}
	if s.few == nil && s.maybeFew != nil {
		n := 0
		text := fmt.Sprintf("SELECT count(*) FROM (%s LIMIT %d) AS found", s.maybeFew, readAtOnce+1)
		err := on.query(ctx, d.inSchema(numbered(text)), func(r *row) error {
			n = r.int()
			return nil
		}, s.maybeFew.Args...)
		if err != nil {
			return err
		}
		if n <= readAtOnce {
			s.few = s.maybeFew
		}
		s.maybeFew = nil
	}
	if s.few != nil {
		return nil
	}
	bounds := at.Bounds("seq")
	text := fmt.Sprintf("SELECT seq FROM {s}.jobs WHERE %s AND %s ORDER BY %s LIMIT 1 OFFSET %d", s.base, &bounds, at.Order("seq"), readAtOnce-1)
	return on.query(ctx, d.inSchema(numbered(text)), func(r *row) error {
		at.Until = r.time()
		return nil
	}, bounds.Args...)
}

// statement selects rows of a span, in its order. If few is set, these records are found first,
// whatever number of them the server expects.
func (s *selection) statement(columns string, at *table.Span, limit int) (text string, args []any) {
	var where table.Condition
	with := ""
	if s.few != nil {
		with = "WITH few AS MATERIALIZED (" + s.few.String() + ") "
		args = append(args, s.few.Args...)
		where.Add("seq IN (SELECT seq FROM few)")
	} else {
		where.Add(s.base)
	}
	bounds := at.Bounds("seq")
	where.Add(bounds.String(), bounds.Args...)
	where.Add(s.String(), s.Args...)
	text = fmt.Sprintf("%sSELECT %s FROM {s}.jobs WHERE %s ORDER BY %s LIMIT %d", with, columns, &where, at.Order("seq"), limit)
	return numbered(text), append(args, where.Args...)
}
