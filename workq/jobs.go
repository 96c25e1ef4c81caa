package workq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// JobType is the type of the jobs of the protocol.
const JobType = "workq"

var jobType = amboy.JobType{Name: JobType, Version: 1}

// The keys of the metadata of a job.
const (
	// metaKey holds the words of the command that put the job.
	metaKey = "workq"
	// attemptsKey counts the leases that have put the job back: their time to run was over, or
	// their worker failed it.
	attemptsKey = "workq-attempts"
	// failsKey counts the fails, with Options.RetryFails.
	failsKey = "workq-fails"
)

// The errors of jobs that are being removed. Such a job is gone for clients.
const (
	errRemoved = "removed by a client of workq"
	errTooOld  = "its time to live is over"
	errTTR     = "its time to run was over too often"
)

// meta is what the protocol knows of a job beyond what every job has.
type meta struct {
	ttr, ttl              time.Duration // ttl is 0 for run
	maxAttempts, maxFails int
	scheduled             time.Time // zero unless it was scheduled
	// putBack counts the leases that have put the job back, and fails the fails that were counted.
	putBack, fails int
}

func (j *newJob) meta() string {
	text := strconv.AppendInt(make([]byte, 0, 40), j.ttr.Milliseconds(), 10)
	for _, n := range []int64{j.ttl.Milliseconds(), int64(j.maxAttempts), int64(j.maxFails)} {
		text = strconv.AppendInt(append(text, ' '), n, 10)
	}
	if !j.at.IsZero() {
		text = j.at.AppendFormat(append(text, ' '), time.RFC3339Nano)
	}
	return string(text)
}

// metaOf returns false for a job that no Server has put.
func metaOf(data map[string]string) (m meta, ok bool) {
	text := data[metaKey]
	var numbers [4]uint64
	for i := range numbers {
		var word string
		word, text, _ = strings.Cut(text, " ")
		if numbers[i], ok = number(word, uint64(MaxTTL.Milliseconds())); !ok {
			return m, false
		}
	}
	m.ttr, m.ttl = time.Duration(numbers[0])*time.Millisecond, time.Duration(numbers[1])*time.Millisecond //nolint:gosec // They are at most MaxTTL.
	m.maxAttempts, m.maxFails = int(numbers[2]), int(numbers[3])                                          //nolint:gosec // The same.
	if text != "" {
		if m.scheduled, ok = parseStored(text); !ok {
			return m, false
		}
	}
	m.putBack, m.fails = countOf(data[attemptsKey]), countOf(data[failsKey])
	return m, true
}

// countOf returns a stored count; 0 if there is none.
func countOf(text string) int {
	if text == "" {
		return 0
	}
	n, _ := strconv.Atoi(text) // 0 if it is damaged
	return n
}

func parseStored(text string) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339Nano, text)
	return at, err == nil
}

// attemptsAllowed is how often the job may be leased.
func (m *meta) attemptsAllowed() int {
	if m.maxAttempts > 0 {
		return m.maxAttempts
	}
	return MaxAttempts
}

// jobs are the jobs of the protocol in the store.
type jobs struct {
	prefix     string
	group      amboy.QueueGroup
	leases     *queue.Leases
	store      *queue.Store
	dispatcher *outside.Dispatcher
}

// stored is a job of the protocol as it is stored.
type stored struct {
	*driver.Record
	meta
	// prefixed is the name of its queue.
	prefixed string
}

func (s *stored) ended() bool { return s.Status.Completed }

func (s *stored) succeeded() bool {
	return s.ended() && driver.StateOf(s.Record, time.Time{}) == amboy.StateSucceeded
}

func (s *stored) leased() bool { return s.Status.InProgress && !s.Status.Completed }

// attempts is how often the job was leased.
func (s *stored) attempts() int {
	n := s.putBack + s.Status.Interruptions.Total()
	if !s.TimeInfo.Start.IsZero() {
		n++
	}
	return n
}

// The states of the protocol.
const (
	stateNew       = 0
	stateCompleted = 1
	stateFailed    = 2
	statePending   = 3
	stateLeased    = 4
)

func (s *stored) state() int {
	switch {
	case s.succeeded():
		return stateCompleted
	case s.ended():
		return stateFailed
	case s.leased():
		return stateLeased
	case s.attempts() > 0:
		return statePending
	default:
		return stateNew
	}
}

// leaseEnds is when the time to run of the lease is over.
func (s *stored) leaseEnds() time.Time { return s.TimeInfo.Start.Add(s.ttr) }

// gone reports whether the job does not exist for clients any more.
func (s *stored) gone(now time.Time) bool {
	end := s.TimeInfo.DispatchBy
	return !end.IsZero() && !now.Before(end) || s.isRemoved()
}

// expiresAt reports whether the job's time to live is over at a time, as far as stores keep it.
func (s *stored) expiresAt(at time.Time) bool {
	return s.TimeInfo.DispatchBy.Sub(at).Abs() < time.Millisecond
}

// isRemoved reports whether the job was ended in order to be removed.
func (s *stored) isRemoved() bool {
	return s.ended() && (slices.Contains(s.Status.Errors, errRemoved) || slices.Contains(s.Status.Errors, errTooOld))
}

// kind is the kind of the notes that are the index: the key is the ID, and the value is the
// queue and the time of the entry.
func (j *jobs) kind() string { return "workq-ids/" + j.prefix }

// orphaned is how old an entry of the index must be to be replaced if its job does not
// exist: a server put the entry, and stopped before it put the job.
const orphaned = time.Minute

// put puts a job. expires is when its time to live is over. It returns duplicateJob if the
// ID is taken.
func (j *jobs) put(ctx context.Context, n *newJob, expires time.Time) error {
	// In whole seconds, so that jobs with the same time to live have the same options.
	keep := (expires.Sub(laterOf(n.at, time.Now())) + time.Second - 1).Truncate(time.Second)
	made, err := job.NewOutside(jobType, job.Payload{Bytes: n.payload}, job.ID(n.id), job.Priority(n.priority), job.At(n.at),
		job.DispatchBy(expires), job.MaxInterruptions(10*MaxAttempts),
		job.Retention(amboy.Retention{Succeeded: keep, Failed: keep, Canceled: keep, Expired: keep}))
	if err != nil {
		return err
	}
	made.(amboy.MetadataJob).SetMetadata(metaKey, n.meta())
	name := j.prefix + n.name
	q, err := j.group.Get(ctx, name)
	if err != nil {
		return fmt.Errorf("opening queue %q: %w", name, err)
	}
	entry, isNew, err := j.reserve(ctx, n.id, name, expires)
	if err != nil {
		return err
	}
	err = q.Put(ctx, made)
	if amboy.IsDuplicateJobError(err) && j.removeGone(ctx, name, n.id) {
		err = q.Put(ctx, made)
	}
	switch {
	case err == nil && !isNew:
		return j.store.Admin().Keep(ctx, entry) // Its time may be another.
	case err == nil:
		return nil
	case amboy.IsDuplicateJobError(err):
		return duplicateJob
	case isNew && !errors.Is(err, driver.ErrOutcomeUnknown): // otherwise there may be a job
		return errors.Join(err, j.forget(ctx, n.id))
	default:
		return err
	}
}

// laterOf returns the later time.
func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// reserve enters an ID in the index. It returns duplicateJob if the ID is taken. isNew is false
// if there was an entry for the same queue, whose job does not exist.
func (j *jobs) reserve(ctx context.Context, id, queueName string, expires time.Time) (note driver.Note, isNew bool, err error) {
	now := time.Now()
	note = driver.Note{Kind: j.kind(), Key: id, Value: strconv.AppendInt([]byte(queueName+" "), now.UnixMilli(), 10), Until: expires}
	for range 2 {
		kept, isNew, err := j.store.Admin().KeepNew(ctx, note, now)
		if err != nil {
			return note, false, fmt.Errorf("entering job %q in the index: %w", id, err)
		}
		if isNew {
			return note, true, nil
		}
		other, since := parseEntry(kept.Value)
		s, err := j.get(ctx, other, id)
		switch {
		case err == nil && !s.gone(now):
			return note, false, duplicateJob
		case err == nil:
			j.removeGone(ctx, other, id)
		case !amboy.IsJobNotFoundError(err):
			return note, false, err
		case other == queueName:
			return note, false, nil // The store decides.
		case now.Sub(since) < orphaned:
			return note, false, duplicateJob // It may be being put.
		}
		err = j.forget(ctx, id)
		if err != nil {
			return note, false, err
		}
	}
	return note, false, duplicateJob // Another server was faster.
}

func parseEntry(value []byte) (queueName string, since time.Time) {
	name, millis, _ := strings.Cut(string(value), " ")
	n, _ := strconv.ParseInt(millis, 10, 64) // an old time if it is damaged
	return name, time.UnixMilli(n)
}

// queueOf returns the queue of a job. The error is notFound if the ID is not known.
func (j *jobs) queueOf(ctx context.Context, id string) (string, error) {
	found, err := j.store.Admin().Notes(ctx, driver.NoteRequest{Kind: j.kind(), From: id, To: id + "\x00", Limit: 1})
	if err != nil {
		return "", fmt.Errorf("finding job %q: %w", id, err)
	}
	if len(found) == 0 {
		return "", notFound
	}
	name, _ := parseEntry(found[0].Value)
	return name, nil
}

// find returns a job by its ID. The error is notFound if there is none.
func (j *jobs) find(ctx context.Context, id string) (*stored, error) {
	name, err := j.queueOf(ctx, id)
	if err != nil {
		return nil, err
	}
	s, err := j.get(ctx, name, id)
	if amboy.IsJobNotFoundError(err) || err == nil && s.gone(time.Now()) {
		return nil, notFound
	}
	return s, err
}

// get returns a job of a queue, gone or not.
func (j *jobs) get(ctx context.Context, queueName, id string) (*stored, error) {
	r, err := j.leases.Get(ctx, queueName, id)
	if err != nil {
		return nil, fmt.Errorf("reading job %q of queue %q: %w", id, queueName, err)
	}
	s, ok := j.of(r)
	if !ok {
		return nil, amboy.NewJobNotFoundErrorf("job %q of queue %q is no job of workq", id, queueName)
	}
	return s, nil
}

// of returns the job of a record; false if it is not one of the protocol, in a queue that the server reaches.
func (j *jobs) of(r *driver.Record) (*stored, bool) {
	m, ok := metaOf(r.Metadata)
	name, isOwn := strings.CutPrefix(r.Group, j.prefix)
	return &stored{Record: r, meta: m, prefixed: r.Group}, ok && r.Type == JobType && isOwn && isName(name)
}

// name returns the name of the job's queue for clients.
func (j *jobs) name(queueName string) string { return strings.TrimPrefix(queueName, j.prefix) }

// result returns the result of a job that has ended.
func (j *jobs) result(ctx context.Context, s *stored) (result, error) {
	own, err := j.leases.Decode(ctx, s.Record)
	if err != nil {
		return result{}, err
	}
	content, _ := outside.ResultBytes(own)
	return result{success: s.succeeded(), content: content}, nil
}

// payload returns the payload of a job.
func (j *jobs) payload(ctx context.Context, s *stored) ([]byte, error) {
	own, err := j.leases.Decode(ctx, s.Record)
	if err != nil {
		return nil, err
	}
	p, _ := job.PayloadOf(own)
	return append(p.Bytes, p.JSON...), nil
}

// end ends a job as ack says, whatever it does.
func (j *jobs) end(ctx context.Context, s *stored, ack outside.Ack) error {
	err := j.dispatcher.End(ctx, s.prefixed, s.JobID(), ack)
	switch {
	case errors.Is(err, outside.ErrEnded):
		return duplicateResult
	case amboy.IsJobNotFoundError(err):
		return notFound
	default:
		return err
	}
}

// remove removes a job, whatever it does. reason is errRemoved or errTooOld.
func (j *jobs) remove(ctx context.Context, s *stored, reason string) error {
	if !s.ended() {
		err := j.end(ctx, s, outside.Ack{Fail: &outside.Fail{Error: reason, Permanent: true}})
		if err != nil && !errors.Is(err, duplicateResult) {
			return err
		}
	}
	request := driver.ActRequest{
		Query:  driver.Query{Queues: []string{s.prefixed}, JobIDs: []string{s.JobID()}, Latest: true},
		Action: driver.Action{Kind: driver.Delete}, Limit: 1,
	}
	for {
		acted, err := j.store.Admin().Act(ctx, request)
		if err != nil {
			return fmt.Errorf("removing job %q of queue %q: %w", s.JobID(), s.prefixed, err)
		}
		if acted.Done+acted.Skipped > 0 || acted.Next == "" {
			return nil
		}
		request.After = acted.Next // a slow store may not have come to the job
	}
}

// forget removes an ID from the index.
func (j *jobs) forget(ctx context.Context, id string) error {
	if err := j.store.Admin().Drop(ctx, j.kind(), id); err != nil {
		return fmt.Errorf("removing job %q from the index: %w", id, err)
	}
	return nil
}

// removeGone removes a job if it is gone for clients, and reports whether it has.
func (j *jobs) removeGone(ctx context.Context, queueName, id string) bool {
	s, err := j.get(ctx, queueName, id)
	return err == nil && s.gone(time.Now()) && j.remove(ctx, s, errTooOld) == nil
}
