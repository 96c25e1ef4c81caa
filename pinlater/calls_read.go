package pinlater

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/apache/thrift/lib/go/thrift"
	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/heap"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/pinlater/wire"
	"github.com/mongodb/amboy/queue/driver"
)

// asked is a job that a caller names.
type asked struct {
	descriptor
	// text is the descriptor as the caller wrote it.
	text string
}

func (s *Server) lookupJobs(ctx context.Context, a *wire.PinLaterLookupJobsArgs) (thrift.TStruct, error) {
	byQueue := map[string][]asked{}
	for _, text := range a.Request.JobDescriptors {
		d, err := parseDescriptor(text)
		if err != nil {
			return nil, err
		}
		byQueue[d.queue] = append(byQueue[d.queue], asked{d, text})
	}
	leave, err := admit(ctx, s.reads)
	if err != nil {
		return nil, err
	}
	defer leave()
	l := lookup{Server: s, withBody: a.Request.IncludeBody, found: map[string]*wire.PinLaterJobInfo{}}
	for queueName, jobs := range byQueue {
		exists, err := s.names.exists(ctx, queueName)
		if err != nil {
			return nil, err
		}
		if !exists {
			continue
		}
		for some := range slices.Chunk(jobs, pageSize) {
			if err := l.read(ctx, queueName, some); err != nil {
				return nil, err
			}
		}
	}
	return &wire.PinLaterLookupJobsResult{Success: l.found}, nil
}

// lookup is a call of lookupJobs.
type lookup struct {
	*Server
	withBody bool
	found    map[string]*wire.PinLaterJobInfo
	// size is that of the bodies.
	size int
}

func (l *lookup) read(ctx context.Context, queueName string, jobs []asked) error {
	ids := make([]string, len(jobs))
	for i, j := range jobs {
		ids[i] = j.jobID()
	}
	records, err := l.leases.Find(ctx, l.stored(queueName), ids)
	if err != nil {
		return err
	}
	byID := make(map[string]*driver.Record, len(records))
	for _, r := range records {
		byID[r.JobID()] = r
	}
	now := l.store.Now()
	for _, j := range jobs {
		r := byID[j.jobID()]
		if r == nil || r.Type != l.opts.JobType || l.found[j.text] != nil {
			continue
		}
		own := newStoredJob(r, now)
		if own.priority() != j.priority {
			continue
		}
		var body []byte
		if l.withBody {
			body, err = l.bodyOf(ctx, r)
			if errors.Is(err, outside.ErrUndecodable) {
				logging.Warning(ctx, message.Fields{
					"message": "left out the body of a job from a lookup, because it can't be decoded",
					"queue":   queueName, "job_id": r.JobID(), "error": err.Error(),
				})
				body, err = nil, nil
			}
			if err != nil {
				return err
			}
			if l.size += len(body); l.size > l.opts.MaxFrame {
				return wrong("the bodies have more than %d bytes; ask for fewer jobs", l.opts.MaxFrame)
			}
		}
		if info := own.describe(queueName, body); info != nil {
			l.found[j.text] = info
		}
	}
	return nil
}

// checkState returns an error for a number that is no state.
func checkState(state wire.PinLaterJobState) error {
	if state < wire.PinLaterJobState_PENDING || state > wire.PinLaterJobState_FAILED {
		return &badRequestError{fmt.Sprintf("Required field 'jobState' has the unknown value %d", state)}
	}
	return nil
}

// selectionOf returns the selection of a request, and false if it can't select anything.
func (s *Server) selectionOf(queueName string, state wire.PinLaterJobState, priority *int8, pattern *string) (sel selection, ok bool, err error) {
	sel = selection{queue: queueName, states: statesOf(state)}
	if priority != nil {
		sel.priority = int(*priority)
	}
	sel.body, err = compile(pattern)
	if err != nil {
		return sel, false, wrong("bodyRegexToMatch %s", err)
	}
	return sel, priority == nil || sel.priority > 0, nil
}

// splitStates restricts a selection of pending jobs to the due jobs, or to the jobs that
// are not. Only pending jobs and, after a checkpoint, claimed ones can be due later.
func splitStates(sel *selection, state wire.PinLaterJobState, future bool) (maybe bool) {
	switch {
	case state != wire.PinLaterJobState_PENDING:
		return !future || state == wire.PinLaterJobState_IN_PROGRESS
	case future:
		sel.states = futureStates()
	default:
		sel.states = currentStates()
	}
	return true
}

// maxCount is the maximum number of jobs of a priority that are counted.
const maxCount = 100_000

func (s *Server) getJobCount(ctx context.Context, a *wire.PinLaterGetJobCountArgs) (thrift.TStruct, error) {
	r := a.Request
	if err := checkState(r.JobState); err != nil {
		return nil, err
	}
	if err := s.exists(ctx, r.QueueName); err != nil {
		return nil, err
	}
	sel, ok, err := s.selectionOf(r.QueueName, r.JobState, r.Priority, r.BodyRegexToMatch)
	if err != nil {
		return nil, err
	}
	count := 0
	if ok && splitStates(&sel, r.JobState, r.CountFutureJobs) {
		if count, err = s.count(ctx, sel, r.JobState, r.CountFutureJobs); err != nil {
			return nil, fmt.Errorf("counting jobs of queue %q: %w", r.QueueName, err)
		}
	}
	answer := int32(min(count, 1<<31-1)) //nolint:gosec // It is bounded.
	return &wire.PinLaterGetJobCountResult{Success: &answer}, nil
}

func (s *Server) count(ctx context.Context, sel selection, state wire.PinLaterJobState, future bool) (int, error) {
	if sel.body != nil || state == wire.PinLaterJobState_IN_PROGRESS {
		return s.countEach(ctx, sel, future)
	}
	if sel.priority > firstPriority {
		return s.driver.Count(ctx, s.query(sel), maxCount)
	}
	// Jobs of the first priority have no tag. They are what is left of all.
	limit := maxCount * s.opts.PriorityLevels
	all, err := s.driver.Count(ctx, s.query(selection{queue: sel.queue, states: sel.states}), limit)
	if err != nil || sel.priority == 0 && all <= maxCount {
		return all, err
	}
	first, others := all, 0
	for priority := firstPriority + 1; priority <= s.opts.PriorityLevels; priority++ {
		n, err := s.driver.Count(ctx, s.query(selection{queue: sel.queue, states: sel.states, priority: priority}), limit)
		if err != nil {
			return 0, err
		}
		first -= n
		others += min(n, maxCount)
	}
	first = min(max(0, first), maxCount)
	if sel.priority == firstPriority {
		return first, nil
	}
	return first + others, nil
}

// countEach counts jobs that have to be read.
func (s *Server) countEach(ctx context.Context, sel selection, future bool) (n int, err error) {
	leave, err := admit(ctx, s.reads)
	if err != nil {
		return 0, err
	}
	defer leave()
	byPriority := map[int]int{}
	now := s.store.Now()
	err = s.find(ctx, sel, func(r *driver.Record) (bool, error) {
		j := newStoredJob(r, now)
		if j.future == future && byPriority[j.priority()] < maxCount {
			byPriority[j.priority()]++
			n++
		}
		return true, nil
	})
	return n, err
}

// maxScanned is the maximum number of jobs of a reply of scanJobs.
const maxScanned = 10_000

func (s *Server) scanJobs(ctx context.Context, a *wire.PinLaterScanJobsArgs) (thrift.TStruct, error) {
	r := a.Request
	if err := checkState(r.JobState); err != nil {
		return nil, err
	}
	if r.Continuation != wire.CONTINUATION_START {
		return nil, exception(wire.ErrorCode_CONTINUATION_INVALID, "CONTINUATION_START is the only continuation token supported right now.")
	}
	if err := s.exists(ctx, r.QueueName); err != nil {
		return nil, err
	}
	sel, ok, err := s.selectionOf(r.QueueName, r.JobState, r.Priority, r.BodyRegexToMatch)
	if err != nil {
		return nil, err
	}
	sel.newest = true
	if !ok || r.Limit <= 0 || !splitStates(&sel, r.JobState, r.ScanFutureJobs) {
		return scanReply{}, nil
	}
	leave, err := admit(ctx, s.reads)
	if err != nil {
		return nil, err
	}
	defer leave()
	latest := newLatestJobs(int(min(r.Limit, maxScanned)), s.opts.MaxFrame/2)
	now := s.store.Now()
	err = s.find(ctx, sel, func(found *driver.Record) (bool, error) {
		if j := newStoredJob(found, now); j.future == r.ScanFutureJobs || j.state == wire.PinLaterJobState_PENDING {
			latest.add(j, r.QueueName)
		}
		return true, nil
	})
	return scanReply{latest.sorted()}, err
}

// scannedJob is a job of a reply of scanJobs.
type scannedJob struct {
	info     *wire.PinLaterJobInfo
	runAfter time.Time
}

// scannedSize is about the size of a job in a reply, without its custom status.
const scannedSize = 300

func (j scannedJob) size() int { return scannedSize + len(j.info.CustomStatus) }

// latestJobs are the jobs with the latest run-after times among the jobs that were added.
type latestJobs struct {
	limit, maxSize int
	size           int
	jobs           heap.Heap[scannedJob] // the earliest first
}

func newLatestJobs(limit, maxSize int) *latestJobs {
	return &latestJobs{
		limit: limit, maxSize: maxSize,
		jobs: heap.New(func(a, b scannedJob) bool { return a.runAfter.Before(b.runAfter) }, nil),
	}
}

func (l *latestJobs) add(j *storedJob, queueName string) {
	at := j.runAfter()
	if l.jobs.Len() == l.limit && !at.After(l.jobs.First().runAfter) {
		return
	}
	info := j.describe(queueName, nil)
	if info == nil {
		return
	}
	added := scannedJob{info, at}
	l.jobs.Put(added)
	l.size += added.size()
	for l.jobs.Len() > l.limit || l.size > l.maxSize {
		l.size -= l.jobs.Pop().size()
	}
}

// sorted returns the jobs, the latest first.
func (l *latestJobs) sorted() []*wire.PinLaterJobInfo {
	infos := make([]*wire.PinLaterJobInfo, l.jobs.Len())
	for i := len(infos) - 1; i >= 0; i-- {
		infos[i] = l.jobs.Pop().info
	}
	return infos
}
