package riverjob

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/mongodb/amboy/queue/driver/internal/pgconnect"
)

// The states of a row.
const (
	stateAvailable = "available"
	stateCancelled = "cancelled"
	stateCompleted = "completed"
	stateDiscarded = "discarded"
	statePending   = "pending"
	stateRetryable = "retryable"
	stateRunning   = "running"
	stateScheduled = "scheduled"
)

// The keys of the metadata that the driver reads or writes.
const (
	keyCancelAttempted = "cancel_attempted_at"
	keyConflict        = "unique_key_conflict"
	keyLog             = "river:log"
	keyOutput          = "output"
	keyRescues         = "river:rescue_count"
	keySnoozes         = "snoozes"
	// These are not River's.
	keyParked   = "amboy:parked"
	keyProgress = "amboy:progress"
	// keyUndecided is the time of a next attempt that the retry handler has not decided on yet.
	keyUndecided = "amboy:undecided"
)

// maxAttemptedBy is the maximum length of attempted_by. The oldest entry falls out.
const maxAttemptedBy = 100

// row is a row of river_job. Edits go through the fields and methods; write stores what changed.
type row struct {
	id                                    int64
	state, kind, queue                    string
	attempt, maxAttempts, priority        int16
	attemptedAt, finalizedAt              time.Time // zero for null
	createdAt, scheduledAt                time.Time
	args                                  string // empty if it was not read
	attemptedBy                           []string
	errors                                []attemptError
	tags                                  []string
	uniqueKey                             []byte
	uniqueStates                          string // eight zeros and ones; empty for null
	metadata                              map[string]json.RawMessage
	now                                   time.Time // the clock of the server when the row was read
	edited, deleted, byEdited, metaEdited bool
	newArgs                               *string
	newError                              *attemptError
}

// attemptError is an element of errors.
type attemptError struct {
	At      string `json:"at"`
	Attempt int    `json:"attempt"`
	Error   string `json:"error"`
	Trace   string `json:"trace"`
}

// columns are the columns of a row. The arguments may be large, and most changes do not need them.
func columns(withArgs bool) string {
	args := "''"
	if withArgs {
		args = "args::text"
	}
	return `id, state::text, kind, queue, attempt, max_attempts, priority, attempted_at, finalized_at, created_at, scheduled_at,
		` + args + `, ARRAY(SELECT a FROM unnest(attempted_by) a WHERE a IS NOT NULL), errors::text[],
		ARRAY(SELECT t::text FROM unnest(tags) t WHERE t IS NOT NULL), unique_key, unique_states::text, metadata::text, clock_timestamp()`
}

// scanRow reads a row. Anything can be there: one row that can't be read would keep all others of its
// queue from being claimed.
func scanRow(found pgx.CollectableRow) (*row, error) {
	r := &row{}
	var attempted, finalized, created, scheduled pgtype.Timestamptz
	var failures []*string
	var states, metadata *string
	err := found.Scan(&r.id, &r.state, &r.kind, &r.queue, &r.attempt, &r.maxAttempts, &r.priority, &attempted, &finalized, &created, &scheduled,
		&r.args, &r.attemptedBy, &failures, &r.tags, &r.uniqueKey, &states, &metadata, &r.now)
	if err != nil {
		return nil, err
	}
	r.attemptedAt, r.finalizedAt, r.createdAt, r.scheduledAt = timeOf(attempted), timeOf(finalized), timeOf(created), timeOf(scheduled)
	if states != nil {
		r.uniqueStates = *states
	}
	for _, failure := range failures {
		r.errors = append(r.errors, decodeError(failure))
	}
	// Metadata that is no JSON object is as none, and makes room when something is stored.
	if metadata == nil || json.Unmarshal([]byte(*metadata), &r.metadata) != nil || r.metadata == nil {
		r.metadata = map[string]json.RawMessage{}
	}
	return r, nil
}

// decodeError reads an element of errors. Anything can be there; what is no error of an attempt is
// shown as its text.
func decodeError(text *string) attemptError {
	var e attemptError
	if text == nil {
		return e
	}
	if json.Unmarshal([]byte(*text), &e) != nil {
		return attemptError{Error: *text}
	}
	return e
}

// timeOf returns a time of the server, which may be infinite or have no form in JSON; zero for null.
func timeOf(t pgtype.Timestamptz) time.Time {
	switch {
	case !t.Valid:
		return time.Time{}
	case t.InfinityModifier == pgtype.Infinity || t.Time.Year() > 9999:
		return time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	case t.InfinityModifier == pgtype.NegativeInfinity || t.Time.Year() < 1:
		return time.Unix(0, 0).UTC()
	default:
		return t.Time.UTC()
	}
}

// token identifies a claim: it is what the driver adds to attempted_by.
type token struct {
	owner string
	count int
	lease time.Duration // 0 if the claim was not made by this package
}

func (t token) String() string { return t.prefix() + t.lease.String() }

// prefix is the part that identifies the claim, whatever the length of its lease.
func (t token) prefix() string { return fmt.Sprintf("%s#%d/", t.owner, t.count) }

// parseToken reads an entry of attempted_by, the last of n. An entry of a process of River is only
// a name.
func parseToken(text string, n int) token {
	rest, lease, isOurs := cutLast(text, "/")
	owner, count, hasCount := cutLast(rest, "#")
	length, err := time.ParseDuration(lease)
	number, failure := strconv.Atoi(count)
	if !isOurs || !hasCount || err != nil || failure != nil {
		return token{owner: text, count: n}
	}
	return token{owner, number, length}
}

func cutLast(text, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(text, sep); i >= 0 {
		return text[:i], text[i+len(sep):], true
	}
	return text, "", false
}

// token returns the latest claim of a row; zero if there was none.
func (r *row) token() token {
	n := len(r.attemptedBy)
	if n == 0 {
		return token{}
	}
	return parseToken(r.attemptedBy[n-1], n)
}

// lease returns the claim under which a row may be changed. A row that waits has no owner, so that the
// one that lost it changes nothing.
func (r *row) lease() token {
	t := r.token()
	if r.state != stateRunning && !r.hasEnded() {
		t.owner = ""
	}
	return t
}

func (r *row) hasEnded() bool {
	return r.state == stateCancelled || r.state == stateCompleted || r.state == stateDiscarded
}

// isWaiting reports whether a row waits for a worker or its time.
func (r *row) isWaiting() bool {
	return r.state == stateAvailable || r.state == stateScheduled || r.state == stateRetryable
}

// claim lets an owner run a row.
func (r *row) claim(owner string, lease time.Duration) {
	count := r.token().count + 1
	r.attemptedBy = append(r.attemptedBy, token{owner, count, lease}.String())
	r.attemptedBy = r.attemptedBy[max(0, len(r.attemptedBy)-maxAttemptedBy):]
	r.byEdited = true
	r.attempt = min(r.attempt, math.MaxInt16-1) + 1
	r.attemptedAt = r.now
	r.set(stateRunning)
	// The job was to be cancelled in an earlier life, and was retried since.
	r.unset(keyCancelAttempted)
	r.unset(keyUndecided)
}

// set changes the state.
func (r *row) set(state string) {
	r.state, r.edited = state, true
	r.finalizedAt = time.Time{}
	if r.hasEnded() {
		r.finalizedAt = r.now
	}
}

// soon is how far ahead of its time River makes a job available.
const soon = 5 * time.Second

// setDue lets a row wait for a time: in a state, or available if that is soon.
func (r *row) setDue(state string, delay time.Duration) {
	r.scheduledAt = r.now.Add(max(0, delay))
	if delay <= soon {
		state = stateAvailable
	}
	r.set(state)
}

// giveBack takes back the attempt that a run has used.
func (r *row) giveBack() { r.attempt = max(0, r.attempt-1) }

func (r *row) isToCancel() bool {
	_, ok := r.metadata[keyCancelAttempted]
	return ok
}

// requestCancel records that the job is to be cancelled, as River does.
func (r *row) requestCancel() { r.put(keyCancelAttempted, r.now.Format(time.RFC3339Nano)) }

// put sets a key of the metadata.
func (r *row) put(key string, value any) {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("riverjob: a value of the metadata can't be encoded: %v", err))
	}
	r.metadata[key] = encoded
	r.edited, r.metaEdited = true, true
}

func (r *row) unset(key string) {
	if _, ok := r.metadata[key]; ok {
		delete(r.metadata, key)
		r.edited, r.metaEdited = true, true
	}
}

// number returns a number of the metadata; 0 if it is none.
func (r *row) number(key string) (n int) {
	if json.Unmarshal(r.metadata[key], &n) != nil {
		return 0
	}
	return n
}

// addError adds an error of the current attempt. The format of the time can be read by all
// clients.
func (r *row) addError(at time.Time, text, trace string) {
	r.newError = &attemptError{
		At:      at.UTC().Format("2006-01-02T15:04:05.000000+00:00"),
		Attempt: int(r.attempt), Error: storable(text), Trace: storable(trace),
	}
	r.edited = true
}

// storable replaces what PostgreSQL does not store in text.
func storable(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\uFFFD"), "\uFFFD")
}

// retryDelay is the delay before the next attempt by River's default policy: the number of errors to
// the power of four, in seconds, plus or minus a tenth. random is from 0 to 1.
func (r *row) retryDelay(random float64) time.Duration {
	n := len(r.errors)
	if r.newError != nil {
		n++
	}
	seconds := math.Pow(float64(max(1, n)), 4) * (0.9 + 0.2*random)
	return time.Duration(min(seconds, 1e9) * float64(time.Second))
}

// stateBits are the states in the order of the bits of unique_states.
var stateBits = []string{
	stateScheduled, stateRunning, stateRetryable, statePending,
	stateDiscarded, stateCompleted, stateCancelled, stateAvailable,
}

// counts reports whether the unique key counts in a state.
func (r *row) counts(state string) bool {
	for i, s := range stateBits {
		if s == state {
			return i < len(r.uniqueStates) && r.uniqueStates[i] == '1'
		}
	}
	return false
}

const updateRow = `UPDATE {s}.river_job SET state = $2::text::{s}.river_job_state, attempt = $3, max_attempts = $4, priority = $5,
	attempted_at = $6, finalized_at = $7, scheduled_at = $8,
	attempted_by = CASE WHEN $9::text[] IS NULL THEN attempted_by ELSE $9::text[] END,
	errors = CASE WHEN $10::text IS NULL THEN errors ELSE array_append(errors, $10::text::jsonb) END,
	metadata = CASE WHEN $11::text IS NULL THEN metadata ELSE $11::text::jsonb END,
	args = CASE WHEN $12::text IS NULL THEN args ELSE $12::text::jsonb END,
	unique_key = $13 WHERE id = $1`

const deleteRow = `DELETE FROM {s}.river_job WHERE id = $1`

// queueWrite adds the statement that stores an edited row.
func (d *Driver) queueWrite(b *pgx.Batch, r *row) error {
	if r.deleted {
		b.Queue(d.sql(deleteRow), r.id)
		return nil
	}
	var by []string
	if r.byEdited {
		by = r.attemptedBy
	}
	var failure, metadata *string
	if r.newError != nil {
		encoded, err := json.Marshal(r.newError)
		if err != nil {
			return err
		}
		failure = new(string(encoded))
	}
	if r.metaEdited {
		encoded, err := json.Marshal(r.metadata)
		if err != nil {
			return err
		}
		metadata = new(string(encoded))
	}
	b.Queue(d.sql(updateRow), r.id, r.state, r.attempt, r.maxAttempts, r.priority, nullable(r.attemptedAt), nullable(r.finalizedAt), r.scheduledAt,
		by, failure, metadata, r.newArgs, r.uniqueKey)
	return nil
}

func nullable(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// selection selects rows to change. where may use the arguments by their numbers.
type selection struct {
	where    string
	args     []any
	order    string // default: by id, so that calls that wait for each other's rows do not deadlock
	limit    int    // 0 for all
	skip     bool   // leave out rows that another transaction has locked
	withArgs bool
	brief    bool     // leave out rows whose unique key another transaction is about to take
	seen     *[]int64 // if it is not nil, the ids of the rows that were selected and locked are added
	in       pgx.Tx   // the transaction of the caller; nil for one of their own
}

func (s selection) text() string {
	order, limit := s.order, ""
	if order == "" {
		order = "id"
	}
	if s.limit > 0 {
		limit = fmt.Sprintf(" LIMIT %d", s.limit)
	}
	return fmt.Sprintf("SELECT %s FROM {s}.river_job WHERE %s ORDER BY %s%s", columns(s.withArgs), s.where, order, limit)
}

func byIDs(ids []int64) selection {
	return selection{where: "id = ANY($1::bigint[])", args: []any{ids}}
}

// among selects those of some rows that s selects.
func (s selection) among(ids []int64) selection {
	s.args = append(slices.Clone(s.args), ids)
	s.where = fmt.Sprintf("(%s) AND id = ANY($%d::bigint[])", s.where, len(s.args))
	return s
}

// change locks the selected rows, calls edit with each, and stores those that were edited, in one
// transaction. It returns the rows that it stored. If it can't store a row because of its unique key
// or of the new content, it changes the rows in parts and calls repair with such a row, after edit. edit may
// be called several times for a row, with what is stored.
func (d *Driver) change(ctx context.Context, s selection, edit func(*row), repair func(*row, error)) ([]*row, error) {
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	stored, err := d.changeAtOnce(ctx, s, edit)
	if !isOfOneRow(err) || len(stored) == 0 {
		return stored, err
	}
	p := &partly{Driver: d, of: s, edit: edit, repair: repair}
	err = p.changeParts(ctx, idsOf(stored), err)
	return p.stored, err
}

// maxWaits is how many rows in a call another transaction may keep waiting.
const maxWaits = 5

// partly changes selected rows in parts, because one row kept them from being changed at once.
type partly struct {
	*Driver
	of     selection
	edit   func(*row)
	repair func(*row, error)
	stored []*row
	waits  int
}

// changeParts divides some rows because of an error, and changes the parts in their order. The parts are
// halves, so that one row costs few transactions, or single rows if one of them waits for another transaction: then
// each part with it would wait.
func (p *partly) changeParts(ctx context.Context, ids []int64, cause error) error {
	size := (len(ids) + 1) / 2
	if isWaitOver(cause) {
		size = 1
	}
	for part := range slices.Chunk(ids, size) {
		if p.waits == maxWaits {
			return nil
		}
		some, err := p.changeRows(ctx, part)
		switch {
		case err == nil:
			p.stored = append(p.stored, some...)
		case isOfOneRow(err) && len(part) > 1:
			err = p.changeParts(ctx, part, err)
			if err != nil {
				return err
			}
		case isWaitOver(err):
			p.waits++
		default:
			return err
		}
	}
	return nil
}

// changeRows changes rows at once. If it can't store a single row, it repairs it.
func (p *partly) changeRows(ctx context.Context, ids []int64) ([]*row, error) {
	s := p.of.among(ids)
	some, err := p.changeAtOnce(ctx, s, p.edit)
	var causes []error // at most one of each kind
	for len(ids) == 1 && len(causes) < 2 && (isUnique(err) || isUnstorable(err)) {
		causes = append(causes, err)
		some, err = p.changeAtOnce(ctx, s, func(r *row) {
			p.edit(r)
			for _, cause := range causes {
				p.repair(r, cause)
			}
		})
	}
	return some, err
}

// maxTries is how often a transaction is tried that the server rolls back because of another one.
const maxTries = 10

// changeAtOnce is change without repairs. If one of the rows that it edited is the reason why none was stored, it
// returns them with the error.
func (d *Driver) changeAtOnce(ctx context.Context, s selection, edit func(*row)) (edited []*row, err error) {
	for range maxTries {
		var mayBeDone bool
		edited, mayBeDone, err = d.transact(ctx, s, edit)
		if err == nil || isOfOneRow(err) {
			return edited, err
		}
		if !isConflict(err) {
			return nil, d.failed(err, mayBeDone)
		}
	}
	return nil, d.failed(err, false)
}

// begin begins a transaction, in one round trip. The server ends it if the next statement does not come: this
// process may be suspended, or its host unreachable, and holds the locks of rows.
func (d *Driver) begin(ctx context.Context, brief bool) (pgx.Tx, error) {
	text := "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '5s'"
	if brief {
		text += "; SET LOCAL lock_timeout = '100ms'"
	}
	return d.pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: text})
}

// beginIn begins a transaction, or one within that of the caller.
func (d *Driver) beginIn(ctx context.Context, s selection) (pgx.Tx, error) {
	if s.in != nil {
		return s.in.Begin(ctx)
	}
	return d.begin(ctx, s.brief)
}

func (d *Driver) transact(ctx context.Context, s selection, edit func(*row)) (edited []*row, mayBeDone bool, err error) {
	tx, err := d.beginIn(ctx, s)
	if err != nil {
		return nil, false, err
	}
	defer pgconnect.Rollback(ctx, tx)
	rows, err := d.lock(ctx, tx, s)
	if err != nil {
		return nil, false, err
	}
	defer func() {
		if err == nil && s.seen != nil {
			*s.seen = append(*s.seen, idsOf(rows)...)
		}
	}()
	batch := &pgx.Batch{}
	for _, r := range rows {
		edit(r)
		if !r.edited {
			continue
		}
		edited = append(edited, r)
		if err = d.queueWrite(batch, r); err != nil {
			return nil, false, fmt.Errorf("encoding job %d: %w", r.id, err)
		}
	}
	if len(edited) == 0 {
		return nil, false, nil
	}
	err = tx.SendBatch(ctx, batch).Close()
	if err != nil {
		return edited, false, err
	}
	err = tx.Commit(ctx)
	return edited, true, err
}

func idsOf(rows []*row) []int64 {
	ids := make([]int64, len(rows))
	for i, r := range rows {
		ids[i] = r.id
	}
	return ids
}

func (d *Driver) lock(ctx context.Context, tx pgx.Tx, s selection) ([]*row, error) {
	text := s.text() + " FOR UPDATE"
	if s.skip {
		text += " SKIP LOCKED"
	}
	return collect(tx.Query(ctx, d.sql(text), s.args...))
}

func collect(found pgx.Rows, err error) ([]*row, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, scanRow)
}

// read reads rows.
func (d *Driver) read(ctx context.Context, s selection) ([]*row, error) {
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	rows, err := collect(d.pool.Query(ctx, d.sql(s.text()), s.args...))
	if err != nil {
		return nil, d.failed(err, false)
	}
	return rows, nil
}
