package sqlite

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// lookedAt is the number of rows, at most, at which one statement looks.
const lookedAt = 5000

// way is how the records of a selection are found, in their order, and no others
// looked at than need be.
type way struct {
	// table is the one in whose order the records are found.
	table string
	// seq is its column with their numbers.
	seq string
	// where says which of its rows.
	where condition
	// walks are along indexes. A page ends where one of them has come to enough rows;
	// it does not where there are no walks, as the records are few.
	walks []walk
	// merged is true where the numbers of the walks are collected before the records
	// are read, because an index has them in another order.
	merged bool
	// all is true where all records are looked at.
	all bool
}

// walk is along an index.
type walk struct {
	table, seq string
	where      condition
}

// rows are those of the walk, in the order of the records.
func (w *walk) rows(at *span, columns string, limit, offset int) (text string, args []any) {
	bounds := at.bounds(w.seq)
	text = fmt.Sprintf("SELECT %s FROM %s WHERE %s AND %s ORDER BY %s LIMIT %d OFFSET %d",
		columns, w.table, &w.where, &bounds, at.order(w.seq), limit, offset)
	return text, slices.Concat(w.where.args, bounds.args)
}

// bound is the statement that finds the last of so many rows as a page may look at;
// it finds none where there are not as many.
func (w *walk) bound(at *span) (text string, args []any) { return w.rows(at, w.seq, 1, lookedAt-1) }

// most is the number of rows of each walk, at most, at which a page looks where they are
// merged.
func (w *way) most() int { return lookedAt / len(w.walks) }

// merge is the statement that finds the rows of all walks at which a page may look: the
// number of each walk with those of its records. It is one, because a record may pass
// from one index to another.
func (w *way) merge(at *span) (text string, args []any) {
	texts := make([]string, len(w.walks))
	for i := range w.walks {
		walk := &w.walks[i]
		rows, rowArgs := walk.rows(at, fmt.Sprintf("%d, %s", i, walk.seq), w.most(), 0)
		texts[i] = "SELECT * FROM (" + rows + ")"
		args = append(args, rowArgs...)
	}
	return strings.Join(texts, " UNION ALL "), args
}

// look finds where a page must end, and the numbers of the records that it may have,
// where the walks are merged.
func (w *way) look(from textQuerier, at *span) (numbers []int64, err error) {
	at.until = instant{}
	if w.merged {
		text, args := w.merge(at)
		rows := make([]int, len(w.walks))
		err = from.queryText(text, func(r *row) error {
			walk, number := r.integer(), r.integer()
			numbers = append(numbers, number)
			rows[walk]++
			if rows[walk] == w.most() {
				at.bound(number)
			}
			return nil
		}, args...)
		return numbers, err
	}
	for i := range w.walks {
		text, args := w.walks[i].bound(at)
		err = from.queryText(text, func(r *row) error {
			at.bound(r.integer())
			return nil
		}, args...)
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// statement selects rows of a span, in the way that was chosen.
func (s *selection) statement(columns string, at *span, numbers []int64, limit int) (text string, args []any) {
	where := condition{}
	if s.way.merged {
		where.add("jobs.seq IN (SELECT value FROM json_each(?))", numberList(numbers))
	} else {
		where.add(s.way.where.String(), s.way.where.args...)
	}
	bounds := at.bounds(s.way.seq)
	where.add(bounds.String(), bounds.args...)
	where.add(s.String(), s.args...)
	text = fmt.Sprintf("SELECT %s FROM %s WHERE %s ORDER BY %s LIMIT ? + 0", columns, s.way.table, &where, at.order(s.way.seq))
	return text, append(where.args, limit)
}

// numberList is an argument for json_each.
func numberList(numbers []int64) string {
	list := []byte{'['}
	for i, n := range numbers {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendInt(list, n, 10)
	}
	return string(append(list, ']'))
}

// choose chooses the way: one for the first page, and maybe another one for those that
// are wanted after it, as the first has not found enough.
func (s *selection) choose(from textQuerier) error {
	switch {
	case s.way == nil:
		first, err := s.firstWay(from)
		if err != nil {
			return err
		}
		s.way = first
	case !s.tried && s.way.all && len(s.queues) > 0:
		few, err := s.areFew(from, countAll, manyOfQueue)
		if err != nil {
			return err
		}
		s.tried = true
		if few {
			s.way = s.wayByQueue()
		}
	}
	return nil
}

// firstWay is the one for the first page.
func (s *selection) firstWay(from textQuerier) (*way, error) {
	if len(s.ids) > 0 || s.dependent {
		return s.wayByJob(), nil
	}
	if s.prefix != "" {
		byPrefix, err := s.wayByPrefix(from)
		if byPrefix != nil || err != nil {
			return byPrefix, err
		}
	}
	switch {
	case len(s.tags) > 0:
		return s.wayByTag(from)
	case s.holding:
		return walkJobs(holdsScopes), nil
	case len(s.places) > 0:
		few := true
		if slices.Contains(s.places, ready) {
			var err error
			few, err = s.mayMergeReady(from)
			if err != nil {
				return nil, err
			}
		}
		if few && s.dueBy.Valid {
			var err error
			s.fewDue, err = s.areFewDue(from)
			if err != nil {
				return nil, err
			}
		}
		if few {
			return s.wayByPlace(), nil
		}
	}
	w := walkJobs("1")
	w.all = true
	return w, nil
}

// walkJobs walks along the records, or along those of an index, whose term it is.
func walkJobs(term string) *way {
	w := few(term)
	w.walks = []walk{{table: w.table, seq: w.seq, where: w.where}}
	return w
}

// few finds a few records.
func few(term string, args ...any) *way {
	w := &way{table: "jobs", seq: "jobs.seq"}
	w.where.add(term, args...)
	return w
}

// attemptsWhere finds the attempts of jobs in queues. What is left open is a table
// beside that of the queues, which of them are meant, and which name and which ID.
const attemptsWhere = `SELECT jobs.seq FROM queues%[1]s CROSS JOIN jobs ON jobs.queue = queues.id AND %[3]s WHERE %[2]s
	UNION ALL SELECT jobs.seq FROM queues%[1]s CROSS JOIN jobs ON jobs.queue = queues.id AND %[4]s AND jobs.attempt IS NOT NULL WHERE %[2]s`

// nameOf is the name of the record with an ID that can't be retried.
func nameOf(id string) string {
	return "CASE queues.name WHEN '' THEN " + id + " ELSE queues.name || '.' || " + id + " END"
}

// whichQueues is a term for the queues of the records.
func (s *selection) whichQueues() (term string, args []any) {
	if len(s.queues) == 0 {
		return "1", nil
	}
	return "queues.name IN (SELECT value FROM json_each(?))", []any{s.queues}
}

// wayByJob finds records by the IDs of their jobs, or of one on which they depend.
func (s *selection) wayByJob() *way {
	if len(s.ids) == 0 {
		return few("1") // The condition names those that depend on it.
	}
	queues, args := s.whichQueues()
	args = append([]any{s.ids}, args...)
	return few("jobs.seq IN ("+fmt.Sprintf(attemptsWhere, " CROSS JOIN json_each(?) AS id", queues,
		"jobs.name = "+nameOf("id.value"), "jobs.job_id = id.value")+")", slices.Concat(args, args)...)
}

// wayByPrefix finds records by what the IDs of their jobs begin with; it returns nil
// where they are many.
func (s *selection) wayByPrefix(from textQuerier) (*way, error) {
	last := len(s.prefix) - 1
	beyond := s.prefix[:last] + string([]byte{s.prefix[last] + 1})
	queues, queueArgs := s.whichQueues()
	text := fmt.Sprintf(attemptsWhere, "", queues,
		"jobs.name >= "+nameOf("?")+" AND jobs.name < "+nameOf("?"), "jobs.job_id >= ? AND jobs.job_id < ?")
	args := slices.Concat([]any{s.prefix, s.prefix, beyond, beyond}, queueArgs, []any{s.prefix, beyond}, queueArgs)
	n := 0
	err := from.queryText(fmt.Sprintf("SELECT count(*) FROM (%s LIMIT %d)", text, lookedAt+1), func(r *row) error {
		n = r.int()
		return nil
	}, args...)
	if err != nil || n > lookedAt {
		return nil, err
	}
	return few("jobs.seq IN ("+text+")", args...), nil
}

// rarestTag is the one of several that the fewest records have, where it is not as
// many as a page may look at.
func rarestTag(from textQuerier, tags names) (rarest string, err error) {
	if len(tags) == 1 {
		return tags[0], nil
	}
	fewest := lookedAt + 1
	for _, tag := range tags {
		err = from.queryText(fmt.Sprintf("SELECT count(*) FROM (SELECT 1 FROM tags WHERE tag = ? LIMIT %d)", lookedAt), func(r *row) error {
			if n := r.int(); n < fewest {
				fewest, rarest = n, tag
			}
			return nil
		}, tag)
		if err != nil {
			return "", err
		}
	}
	return rarest, nil
}

// wayByTag walks along the records that have a tag, the rarest of those that are asked
// for.
func (s *selection) wayByTag(from textQuerier) (*way, error) {
	tag, err := rarestTag(from, s.tags)
	if err != nil {
		return nil, err
	}
	w := &way{table: "tags CROSS JOIN jobs ON jobs.seq = of_seq", seq: "of_seq"}
	table := "tags"
	w.where.add("tags.tag = ?", tag)
	if len(s.queues) == 1 {
		table = "tags INDEXED BY tags_queue"
		w.table = table + " CROSS JOIN jobs ON jobs.seq = of_seq"
		w.where.add("of_queue = (SELECT id FROM queues WHERE name = ?)", s.queues[0])
	}
	w.walks = []walk{{table: table, seq: w.seq, where: w.where}}
	return w, nil
}

// The terms of the indexes of places: of one for each place but two, and of that of
// the records that are ready.
const (
	inPlaces = "place NOT IN (4, 8)"
	isReady  = "place = 4"
)

// mergeWith adds a walk along an index that has another order.
func (w *way) mergeWith(index, term string, args ...any) {
	along := walk{table: "jobs INDEXED BY " + index, seq: w.seq}
	along.where.add(term, args...)
	w.walks = append(w.walks, along)
	w.merged = true
}

// The numbers of records beyond which these are not brought from the order of an index
// into their own, by which they take some 40 ms: of those that are ready, and of those
// of a queue, whose index has their names, too.
const (
	manyReady   = 200_000
	manyOfQueue = 50_000
)

// areFewDue reports whether at most lookedAt records are due but still scheduled. There may be
// more if no process has claimed for long.
func (s *selection) areFewDue(from textQuerier) (bool, error) {
	n := 0
	err := from.queryText(fmt.Sprintf("SELECT count(*) FROM (SELECT 1 FROM jobs INDEXED BY jobs_due WHERE due <= ? LIMIT %d)", lookedAt+1),
		func(r *row) error {
			n = r.int()
			return nil
		}, s.dueBy)
	return n <= lookedAt, err
}

// countAll counts the records of a queue.
const countAll = "waiting + scheduled + postponed + scope_blocked + ready + parked + running + retrying + finished"

// areFew tells whether the queues have no more than so many records. counts says which
// of them are counted.
func (s *selection) areFew(from textQuerier, counts string, many int) (bool, error) {
	text, args := s.whichQueues()
	n := 0
	err := from.queryText("SELECT coalesce(sum("+counts+"), 0) FROM queues WHERE "+text, func(r *row) error {
		n = r.int()
		return nil
	}, args...)
	return n <= many, err
}

// wayByQueue finds the records of the queues, whose index has them by their names.
func (s *selection) wayByQueue() *way {
	w := &way{table: "jobs", seq: "jobs.seq"}
	w.mergeWith("jobs_name", "queue IN ("+queueIDs+")", s.queues)
	return w
}

// wayByPlace walks along the records of each place.
func (s *selection) wayByPlace() *way {
	w := &way{table: "jobs", seq: "jobs.seq"}
	var list []string
	for _, p := range s.places {
		if p == ready {
			s.mergeReady(w)
			continue
		}
		if p == scheduled && s.fewDue { // the records that are not due may be many
			w.mergeWith("jobs_due", "place = 1 AND due <= ?", s.dueBy)
			continue
		}
		text := strconv.Itoa(int(p))
		list = append(list, text)
		along := walk{table: "jobs", seq: w.seq}
		along.where.add("place = " + text)
		along.where.add(inPlaces)
		w.walks = append(w.walks, along)
	}
	if s.stale.Valid {
		w.mergeWith("jobs_expires", "expires < ?", s.stale)
		w.mergeWith("jobs_overdue", "overdue = 1")
	}
	w.where.add("place IN (" + strings.Join(list, ", ") + ")")
	w.where.add(inPlaces)
	return w
}

// mergeReady adds the records that are ready, whose index has them in the order in
// which they run.
func (s *selection) mergeReady(w *way) {
	switch {
	case len(s.queues) == 0:
		w.mergeWith("jobs_ready", isReady)
	case len(s.priorities) == 0:
		w.mergeWith("jobs_ready", isReady+" AND queue IN ("+queueIDs+")", s.queues)
	default:
		s.mergeByPriority(w)
	}
}

// mergeByPriority adds a walk for each priority, along which the index has the records in
// their order, and one for each gap beside them: a record that comes into a gap meanwhile
// must not be missed.
func (s *selection) mergeByPriority(w *way) {
	const inQueue = isReady + " AND queue = (SELECT id FROM queues WHERE name = ?)"
	queue := s.queues[0]
	for i, p := range s.priorities {
		if i == 0 {
			w.mergeWith("jobs_ready", inQueue+" AND priority > ?", queue, p)
		} else {
			w.mergeWith("jobs_ready", inQueue+" AND priority > ? AND priority < ?", queue, p, s.priorities[i-1])
		}
		w.mergeWith("jobs_ready", inQueue+" AND priority = ?", queue, p)
	}
	w.mergeWith("jobs_ready", inQueue+" AND priority < ?", queue, s.priorities[len(s.priorities)-1])
}

// maxPriorities is the number of priorities for which there may be walks of their own.
const maxPriorities = 8

// mayMergeReady reports whether ready records are found by their index: if they are few enough
// to be sorted, or if they belong to one queue and have few priorities, which it sets.
func (s *selection) mayMergeReady(from textQuerier) (bool, error) {
	if len(s.queues) == 1 {
		const next = "SELECT j.priority FROM jobs AS j INDEXED BY jobs_ready" +
			" WHERE j.place = 4 AND j.queue = (SELECT id FROM queues WHERE name = ?)"
		var found []int
		err := from.queryText(fmt.Sprintf("WITH RECURSIVE levels(priority) AS (SELECT ("+next+" ORDER BY j.priority DESC LIMIT 1)"+
			" UNION ALL SELECT ("+next+" AND j.priority < levels.priority ORDER BY j.priority DESC LIMIT 1)"+
			" FROM levels WHERE levels.priority IS NOT NULL LIMIT %d) SELECT priority FROM levels WHERE priority IS NOT NULL", maxPriorities+1),
			func(r *row) error {
				found = append(found, r.int())
				return nil
			}, s.queues[0], s.queues[0])
		if err != nil {
			return false, err
		}
		if len(found) <= maxPriorities {
			s.priorities = found
			return true, nil
		}
	}
	return s.areFew(from, "ready", manyReady)
}
