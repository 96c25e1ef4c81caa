package sqlite

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
	"github.com/mongodb/amboy/queue/internal/scope"
)

// maxScanned is the maximum number of rows that one statement scans.
const maxScanned = 5000

// minScanned is the number of rows that each scan of a short page may have, however few records
// are wanted.
const minScanned = 100

// accessPath is the index scan chosen for a query. It finds the records of a selection in
// their order, with as few other rows as possible.
type accessPath struct {
	// table is the table in whose order the records are found.
	table string
	// seq is its column with the sequence numbers of the records.
	seq string
	// where selects the rows of the table.
	where table.Condition
	// scans are along indexes. A page ends when one of them has reached the maximum
	// number of rows. Without scans a page has no such end, because the records are few.
	scans []indexScan
	// merged is true if the sequence numbers of the scans are collected before the records
	// are read, because an index has another order.
	merged bool
	// all is true if all records are scanned.
	all bool
}

// indexScan is a scan along an index.
type indexScan struct {
	table, seq string
	where      table.Condition
}

// rows returns the statement for the rows of the scan, in the order of the records.
func (s *indexScan) rows(at *table.Span, columns string, limit, offset int) (text string, args []any) {
	bounds := at.Bounds(s.seq)
	text = fmt.Sprintf("SELECT %s FROM %s WHERE %s AND %s ORDER BY %s LIMIT %d OFFSET %d",
		columns, s.table, &s.where, &bounds, at.Order(s.seq), limit, offset)
	return text, slices.Concat(s.where.Args, bounds.Args)
}

// bound returns the statement that finds the last row that a page may scan. It finds none
// if there are fewer rows.
func (s *indexScan) bound(at *table.Span, most int) (text string, args []any) {
	return s.rows(at, s.seq, 1, most-1)
}

// maxPerScan is the maximum number of rows of each scan that a page of limit records scans.
func (p *accessPath) maxPerScan(limit int, short bool) int {
	most := maxScanned
	if p.merged {
		most /= len(p.scans)
	}
	if short {
		most = min(most, max(minScanned, 2*limit))
	}
	return most
}

// merge returns the statement that finds the rows of all scans that a page may scan: the
// index of a scan and the sequence number of a record. It is a single statement, because
// a record may move from one index to another.
func (p *accessPath) merge(at *table.Span, most int) (text string, args []any) {
	texts := make([]string, len(p.scans))
	for i := range p.scans {
		along := &p.scans[i]
		rows, rowArgs := along.rows(at, fmt.Sprintf("%d, %s", i, along.seq), most, 0)
		texts[i] = "SELECT * FROM (" + rows + ")"
		args = append(args, rowArgs...)
	}
	return strings.Join(texts, " UNION ALL "), args
}

// limitPage finds where a page must end. If the scans are merged, it also returns the sequence
// numbers of the records that the page may contain. Each scan has at most most rows.
func (p *accessPath) limitPage(from textQuerier, at *table.Span, most int) (numbers []int64, err error) {
	at.Until = table.Instant{}
	if p.merged {
		text, args := p.merge(at, most)
		rows := make([]int, len(p.scans))
		err = from.queryText(text, func(r *row) error {
			scan, number := r.integer(), r.integer()
			numbers = append(numbers, number)
			rows[scan]++
			if rows[scan] == most {
				at.EndAt(number)
			}
			return nil
		}, args...)
		return numbers, err
	}
	for i := range p.scans {
		text, args := p.scans[i].bound(at, most)
		err = from.queryText(text, func(r *row) error {
			at.EndAt(r.integer())
			return nil
		}, args...)
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// along returns the condition on the rows of a span along the access path.
func (p *accessPath) along(at *table.Span, numbers []int64) table.Condition {
	where := table.Condition{}
	if p.merged {
		where.Add("jobs.seq IN (SELECT value FROM json_each(?))", numberList(numbers))
	} else {
		where.Add(p.where.String(), p.where.Args...)
	}
	bounds := at.Bounds(p.seq)
	where.Add(bounds.String(), bounds.Args...)
	return where
}

// statement selects the rows of a span along the chosen access path.
func (s *selection) statement(columns string, at *table.Span, numbers []int64, limit int) (text string, args []any) {
	where := s.path.along(at, numbers)
	where.Add(s.String(), s.Args...)
	text = fmt.Sprintf("SELECT %s FROM %s WHERE %s ORDER BY %s LIMIT ? + 0", columns, s.path.table, &where, at.Order(s.path.seq))
	return text, append(where.Args, limit)
}

// scanStatement returns all rows of a span along the chosen access path: whether they are selected, or
// their bodies, if those are searched. A body is NULL if the row is not selected, or the body too long to
// be searched: SQLite does not read it to know its length. So the rows are counted as they are scanned, and
// no other statement has to find the end of the page before, which reads the same pages of the file.
func (s *selection) scanStatement(at *table.Span, numbers []int64, limit int) (text string, args []any) {
	where, selected := s.path.along(at, numbers), s.String()
	if s.search.Body != nil {
		selected = fmt.Sprintf("format, CASE WHEN %s AND length(body) <= %d THEN body END", selected, driver.MaxSearchedBody)
	}
	text = fmt.Sprintf("SELECT jobs.seq, %s FROM %s WHERE %s ORDER BY %s LIMIT ? + 0", selected, s.path.table, &where, at.Order(s.path.seq))
	return text, append(slices.Concat(s.Args, where.Args), limit)
}

// numberList encodes numbers for json_each.
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

// choose chooses the access path for the first page, and may choose another one for the
// second page if the first has not found enough.
func (s *selection) choose(from textQuerier) error {
	switch {
	case s.path == nil:
		first, err := s.firstPath(from)
		if err != nil {
			return err
		}
		s.path = first
	case !s.tried && s.path.all && len(s.queues) > 0:
		few, err := s.areFew(from, countAll, manyOfQueue)
		if err != nil {
			return err
		}
		s.tried = true
		if few {
			s.path = s.pathByQueue()
		}
	}
	return nil
}

// firstPath chooses the access path for the first page.
func (s *selection) firstPath(from textQuerier) (*accessPath, error) {
	switch {
	case len(s.ids) > 0 || s.dependent:
		return s.pathByJob(), nil
	case s.held != "":
		return s.pathByHolder(), nil
	}
	if s.prefix != "" {
		byPrefix, err := s.pathByPrefix(from)
		if byPrefix != nil || err != nil {
			return byPrefix, err
		}
	}
	if byPart, err := s.pathByPart(from); byPart != nil || err != nil {
		return byPart, err
	}
	switch {
	case len(s.tags) > 0:
		return s.pathByTag(from)
	case s.holding:
		return scanJobs(holdsScopes), nil
	case len(s.places) > 0:
		few := true
		if slices.Contains(s.places, table.Ready) {
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
			return s.pathByPlace(), nil
		}
	}
	p := scanJobs("1")
	p.all = true
	return p, nil
}

// scanJobs scans the jobs, or those of a partial index whose term is given.
func scanJobs(term string) *accessPath {
	p := few(term)
	p.scans = []indexScan{{table: p.table, seq: p.seq, where: p.where}}
	return p
}

// few is an access path for a few records.
func few(term string, args ...any) *accessPath {
	p := &accessPath{table: "jobs", seq: "jobs.seq"}
	p.where.Add(term, args...)
	return p
}

// attemptsWhere selects the attempts of jobs in queues. The parameters are a table joined to
// queues, the condition on queues, and the conditions on the record's name and the job's ID.
const attemptsWhere = `SELECT jobs.seq FROM queues%[1]s CROSS JOIN jobs ON jobs.queue = queues.id AND %[3]s WHERE %[2]s
	UNION ALL SELECT jobs.seq FROM queues%[1]s CROSS JOIN jobs ON jobs.queue = queues.id AND %[4]s AND jobs.attempt IS NOT NULL WHERE %[2]s`

// nameOf returns the expression for the record name of a job that can't be retried.
func nameOf(id string) string {
	return "CASE queues.name WHEN '' THEN " + id + " ELSE queues.name || '.' || " + id + " END"
}

// whichQueues returns the condition on queues.
func (s *selection) whichQueues() (term string, args []any) {
	if len(s.queues) == 0 {
		return "1", nil
	}
	return "queues.name IN (SELECT value FROM json_each(?))", []any{s.queues}
}

// pathByJob finds records by their job IDs, or by a job on which they depend.
func (s *selection) pathByJob() *accessPath {
	if len(s.ids) == 0 {
		return few("1") // the condition of the selection finds the dependents
	}
	queues, args := s.whichQueues()
	args = append([]any{s.ids}, args...)
	return few("jobs.seq IN ("+fmt.Sprintf(attemptsWhere, " CROSS JOIN json_each(?) AS id", queues,
		"jobs.name = "+nameOf("id.value")+" AND jobs.job_id = id.value", "jobs.job_id = id.value")+")", slices.Concat(args, args)...)
}

// pathByHolder finds the holders of a scope.
func (s *selection) pathByHolder() *accessPath {
	key, _ := scope.Key(s.held)
	queues, args := s.whichQueues()
	args = append([]any{key}, args...)
	return few("jobs.seq IN ("+fmt.Sprintf(attemptsWhere, " CROSS JOIN scope_holders AS held ON held.queue = queues.id AND held.scope = ?", queues,
		"jobs.name = "+nameOf("held.job_id")+" AND jobs.job_id = held.job_id", "jobs.job_id = held.job_id")+")", slices.Concat(args, args)...)
}

// pathByPrefix finds records by the prefix of their job IDs. It returns nil if there are too
// many.
func (s *selection) pathByPrefix(from textQuerier) (*accessPath, error) {
	last := len(s.prefix) - 1
	beyond := s.prefix[:last] + string([]byte{s.prefix[last] + 1})
	queues, queueArgs := s.whichQueues()
	text := fmt.Sprintf(attemptsWhere, "", queues,
		"jobs.name >= "+nameOf("?")+" AND jobs.name < "+nameOf("?"), "jobs.job_id >= ? AND jobs.job_id < ?")
	args := slices.Concat([]any{s.prefix, s.prefix, beyond, beyond}, queueArgs, []any{s.prefix, beyond}, queueArgs)
	n := 0
	err := from.queryText(fmt.Sprintf("SELECT count(*) FROM (%s LIMIT %d)", text, maxScanned+1), func(r *row) error {
		n = r.int()
		return nil
	}, args...)
	if err != nil || n > maxScanned {
		return nil, err
	}
	return few("jobs.seq IN ("+text+")", args...), nil
}

// manySearched is the maximum number of records of a store whose names are all searched, which takes
// about a quarter of a second.
const manySearched = 1_500_000

// pathByPart finds records by a part of an ID or of a tag, in an index that has these texts
// without the rest of the records. It returns nil if there are too many records with the part: then
// they are found soon in their order.
func (s *selection) pathByPart(from textQuerier) (*accessPath, error) {
	text, args := "", []any{}
	switch {
	case s.tagPart != "":
		text, args = "SELECT DISTINCT of_seq FROM tags WHERE instr(lower(tag), ?) > 0", append(args, s.tagPart)
	case s.idPart != "":
		fits, err := s.areFew(from, countAll, manySearched)
		if err != nil || !fits {
			return nil, err
		}
		text, args = "SELECT seq FROM jobs INDEXED BY jobs_name WHERE instr(lower(name), ?) > 0", append(args, s.idPart)
		if len(s.queues) > 0 {
			text, args = text+" AND queue IN ("+queueIDs+")", append(args, s.queues)
		}
	default:
		return nil, nil
	}
	var found []int64
	err := from.queryText(fmt.Sprintf("%s LIMIT %d", text, maxScanned+1), func(r *row) error {
		found = append(found, r.integer())
		return nil
	}, args...)
	if err != nil || len(found) > maxScanned {
		return nil, err
	}
	return few("jobs.seq IN (SELECT value FROM json_each(?))", numberList(found)), nil
}

// rarestTag returns the tag that the fewest records have. If all tags have at least
// maxScanned records, it returns the first of them.
func rarestTag(from textQuerier, tags table.Names) (rarest string, err error) {
	if len(tags) == 1 {
		return tags[0], nil
	}
	fewest := maxScanned + 1
	for _, tag := range tags {
		err = from.queryText(fmt.Sprintf("SELECT count(*) FROM (SELECT 1 FROM tags WHERE tag = ? LIMIT %d)", maxScanned), func(r *row) error {
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

// pathByTag scans the records that have the rarest of the given tags.
func (s *selection) pathByTag(from textQuerier) (*accessPath, error) {
	tag, err := rarestTag(from, s.tags)
	if err != nil {
		return nil, err
	}
	p := &accessPath{table: "tags CROSS JOIN jobs ON jobs.seq = of_seq", seq: "of_seq"}
	scanned := "tags"
	p.where.Add("tags.tag = ?", tag)
	if len(s.queues) == 1 {
		scanned = "tags INDEXED BY tags_queue"
		p.table = scanned + " CROSS JOIN jobs ON jobs.seq = of_seq"
		p.where.Add("of_queue = (SELECT id FROM queues WHERE name = ?)", s.queues[0])
	}
	p.scans = []indexScan{{table: scanned, seq: p.seq, where: p.where}}
	return p, nil
}

// The terms of the partial indexes on place: one for all places except ready and overdue
// ones, and one for ready records.
const (
	inPlaces = "place NOT IN (4, 8)"
	isReady  = "place = 4"
)

// mergeWith adds a scan along an index that has another order.
func (p *accessPath) mergeWith(index, term string, args ...any) {
	along := indexScan{table: "jobs INDEXED BY " + index, seq: p.seq}
	along.where.Add(term, args...)
	p.scans = append(p.scans, along)
	p.merged = true
}

// The maximum numbers of records that are sorted from the order of an index into their own,
// which takes about 40 ms: ready records, and records of a queue, whose index also contains
// their names.
const (
	manyReady   = 200_000
	manyOfQueue = 50_000
)

// areFewDue reports whether at most maxScanned records are due but still scheduled. There may
// be more if no process has claimed for long.
func (s *selection) areFewDue(from textQuerier) (bool, error) {
	n := 0
	err := from.queryText(fmt.Sprintf("SELECT count(*) FROM (SELECT 1 FROM jobs INDEXED BY jobs_due WHERE due <= ? LIMIT %d)", maxScanned+1),
		func(r *row) error {
			n = r.int()
			return nil
		}, s.dueBy)
	return n <= maxScanned, err
}

// countAll is the number of records of a queue.
const countAll = "waiting + scheduled + postponed + scope_blocked + ready + parked + running + retrying + finished"

// areFew reports whether the queues have at most many records. counts is the expression
// that counts the records of a queue.
func (s *selection) areFew(from textQuerier, counts string, many int) (bool, error) {
	text, args := s.whichQueues()
	n := 0
	err := from.queryText("SELECT coalesce(sum("+counts+"), 0) FROM queues WHERE "+text, func(r *row) error {
		n = r.int()
		return nil
	}, args...)
	return n <= many, err
}

// pathByQueue scans the index of records by queue and name.
func (s *selection) pathByQueue() *accessPath {
	p := &accessPath{table: "jobs", seq: "jobs.seq"}
	p.mergeWith("jobs_name", "queue IN ("+queueIDs+")", s.queues)
	return p
}

// pathByPlace scans the records of each place.
func (s *selection) pathByPlace() *accessPath {
	p := &accessPath{table: "jobs", seq: "jobs.seq"}
	var list []string
	for _, at := range s.places {
		if at == table.Ready {
			s.mergeReady(p)
			continue
		}
		if at == table.Scheduled && s.fewDue { // the records that are not due may be many
			p.mergeWith("jobs_due", "place = 1 AND due <= ?", s.dueBy)
			continue
		}
		text := strconv.Itoa(int(at))
		list = append(list, text)
		along := indexScan{table: "jobs", seq: p.seq}
		along.where.Add("place = " + text)
		along.where.Add(inPlaces)
		p.scans = append(p.scans, along)
	}
	if s.stale.Valid {
		p.mergeWith("jobs_expires", "expires < ?", s.stale)
		p.mergeWith("jobs_overdue", "overdue = 1")
	}
	p.where.Add("place IN (" + strings.Join(list, ", ") + ")")
	p.where.Add(inPlaces)
	return p
}

// mergeReady adds scans of the ready records, whose index is in the order in which they
// run.
func (s *selection) mergeReady(p *accessPath) {
	switch {
	case len(s.queues) == 0:
		p.mergeWith("jobs_ready", isReady)
	case len(s.priorities) == 0:
		p.mergeWith("jobs_ready", isReady+" AND queue IN ("+queueIDs+")", s.queues)
	default:
		s.mergeByPriority(p)
	}
}

// mergeByPriority adds a scan for each priority, along which the index has the records in
// their order, and one for each gap between priorities: a record that is put into a gap
// meanwhile must not be missed.
func (s *selection) mergeByPriority(p *accessPath) {
	const inQueue = isReady + " AND queue = (SELECT id FROM queues WHERE name = ?)"
	queue := s.queues[0]
	for i, priority := range s.priorities {
		if i == 0 {
			p.mergeWith("jobs_ready", inQueue+" AND priority > ?", queue, priority)
		} else {
			p.mergeWith("jobs_ready", inQueue+" AND priority > ? AND priority < ?", queue, priority, s.priorities[i-1])
		}
		p.mergeWith("jobs_ready", inQueue+" AND priority = ?", queue, priority)
	}
	p.mergeWith("jobs_ready", inQueue+" AND priority < ?", queue, s.priorities[len(s.priorities)-1])
}

// maxPriorities is the maximum number of priorities that have scans of their own.
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
