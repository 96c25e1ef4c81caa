package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/mongodb/amboy/management"
)

// shareTime is the maximum age of an answer that requests share.
const shareTime = time.Second

// Share returns an Inspector that wraps another, and shares the answers to expensive
// queries among open pages for a second: the queues, their activity, counts of jobs, groups
// of errors, and the diagnosis.
// A change made through it is visible at once.
//
// It does not distinguish clients. Access checks must wrap it.
func Share(inspector management.Inspector) management.Inspector {
	return &shared{
		Inspector: inspector,
		queues:    newCache[[]management.Queue](),
		found:     newCache[management.QueuePage](),
		totals:    newCache[management.QueueTotals](),
		queue:     newCache[management.Queue](),
		activity:  newCache[management.Activity](),
		counts:    newCache[management.Count](),
		states:    newCache[[]management.StateCount](),
		groups:    newCache[management.ErrorGroups](),
		diagnosis: newCache[management.Diagnosis](),
	}
}

// shared is an Inspector that shares answers.
type shared struct {
	management.Inspector
	queues   *cache[[]management.Queue]
	found    *cache[management.QueuePage]
	totals   *cache[management.QueueTotals]
	queue    *cache[management.Queue]
	activity *cache[management.Activity]
	counts   *cache[management.Count]
	states   *cache[[]management.StateCount]
	groups   *cache[management.ErrorGroups]
	// diagnosis has one answer.
	diagnosis *cache[management.Diagnosis]
}

func (s *shared) Queues(ctx context.Context) ([]management.Queue, error) {
	queues, err := s.queues.get(ctx, "", s.Inspector.Queues)
	return slices.Clone(queues), err
}

func (s *shared) FindQueues(ctx context.Context, filter management.QueueFilter, page management.PageRequest) (management.QueuePage, error) {
	found, err := s.found.get(ctx, key(filter, page), func(ctx context.Context) (management.QueuePage, error) {
		return s.Inspector.FindQueues(ctx, filter, page)
	})
	found.Queues = slices.Clone(found.Queues)
	return found, err
}

func (s *shared) SumQueues(ctx context.Context) (management.QueueTotals, error) {
	totals, err := s.totals.get(ctx, "", s.Inspector.SumQueues)
	totals.Busiest = slices.Clone(totals.Busiest)
	return totals, err
}

func (s *shared) Queue(ctx context.Context, name string) (management.Queue, error) {
	return s.queue.get(ctx, name, func(ctx context.Context) (management.Queue, error) {
		return s.Inspector.Queue(ctx, name)
	})
}

func (s *shared) Activity(ctx context.Context, req management.ActivityRequest) (management.Activity, error) {
	activity, err := s.activity.get(ctx, key(req), func(ctx context.Context) (management.Activity, error) {
		return s.Inspector.Activity(ctx, req)
	})
	activity.Points, activity.Rows = slices.Clone(activity.Points), slices.Clone(activity.Rows)
	return activity, err
}

func (s *shared) CountJobs(ctx context.Context, filter management.JobFilter, most int) (management.Count, error) {
	return s.counts.get(ctx, key(filter, most), func(ctx context.Context) (management.Count, error) {
		return s.Inspector.CountJobs(ctx, filter, most)
	})
}

func (s *shared) CountStates(ctx context.Context, req management.StateCountRequest) ([]management.StateCount, error) {
	counts, err := s.states.get(ctx, key(req), func(ctx context.Context) ([]management.StateCount, error) {
		return s.Inspector.CountStates(ctx, req)
	})
	return slices.Clone(counts), err
}

func (s *shared) ErrorGroups(ctx context.Context, req management.ErrorGroupRequest) (management.ErrorGroups, error) {
	groups, err := s.groups.get(ctx, key(req), func(ctx context.Context) (management.ErrorGroups, error) {
		return s.Inspector.ErrorGroups(ctx, req)
	})
	groups.Groups = slices.Clone(groups.Groups)
	return groups, err
}

// Diagnose returns an error that wraps management.ErrUnsupported if the Inspector makes no
// diagnosis.
func (s *shared) Diagnose(ctx context.Context) (management.Diagnosis, error) {
	diagnostician, ok := s.Inspector.(management.Diagnostician)
	if !ok {
		return management.Diagnosis{}, fmt.Errorf("making a diagnosis: %w", management.ErrUnsupported)
	}
	diagnosis, err := s.diagnosis.get(ctx, "", diagnostician.Diagnose)
	diagnosis.Findings = slices.Clone(diagnosis.Findings)
	return diagnosis, err
}

// Watch clears the caches before it yields a change, so that a page that is loaded because
// of it shows the change.
func (s *shared) Watch(ctx context.Context, every time.Duration) iter.Seq2[[]management.Queue, error] {
	return func(yield func([]management.Queue, error) bool) {
		for queues, err := range s.Inspector.Watch(ctx, every) {
			s.forget()
			if !yield(queues, err) {
				return
			}
		}
	}
}

func (s *shared) SetControl(ctx context.Context, queue string, change management.ControlChange) (management.Control, error) {
	defer s.forget()
	return s.Inspector.SetControl(ctx, queue, change)
}

func (s *shared) CreateJob(ctx context.Context, job management.NewJob) (management.Created, error) {
	defer s.forget()
	return s.Inspector.CreateJob(ctx, job)
}

func (s *shared) ActOn(ctx context.Context, queue, id string, action management.Action) (management.Acted, error) {
	defer s.forget()
	return s.Inspector.ActOn(ctx, queue, id, action)
}

func (s *shared) EditJob(ctx context.Context, queue, id string, edit management.JobEdit) (management.JobEdited, error) {
	if !edit.DryRun {
		defer s.forget()
	}
	return s.Inspector.EditJob(ctx, queue, id, edit)
}

func (s *shared) Act(ctx context.Context, req management.ActRequest) (management.Acted, error) {
	if !req.DryRun {
		defer s.forget()
	}
	return s.Inspector.Act(ctx, req)
}

func (s *shared) forget() {
	s.queues.forget()
	s.found.forget()
	s.totals.forget()
	s.queue.forget()
	s.activity.forget()
	s.counts.forget()
	s.states.forget()
	s.groups.forget()
	s.diagnosis.forget()
}

// key returns a key that identifies a request.
func key(parts ...any) string {
	encoded, err := json.Marshal(parts)
	if err != nil { // all these types can be encoded
		panic(fmt.Sprintf("encoding %T: %v", parts, err))
	}
	return string(encoded)
}

var errEnded = errors.New("the shared query did not return")

const (
	// maxRemembered is the maximum number of answers in a cache.
	maxRemembered = 256
	// maxAsking is the timeout of a shared query.
	maxAsking = 30 * time.Second
)

// cache maps queries to answers. It is safe for concurrent use.
type cache[T any] struct {
	mutex   sync.Mutex
	answers map[string]*remembered[T]
}

// remembered is an answer, or a pending query. value and err must not be read before ready
// is closed.
type remembered[T any] struct {
	ready chan struct{}
	value T
	err   error
	asked time.Time
}

func newCache[T any]() *cache[T] { return &cache[T]{answers: map[string]*remembered[T]{}} }

// get returns an answer that is no older than shareTime, and queries if there is none. All
// callers that arrive during a query get its answer.
func (c *cache[T]) get(ctx context.Context, question string, ask func(context.Context) (T, error)) (T, error) {
	c.mutex.Lock()
	answer, found := c.answers[question]
	if !found || time.Since(answer.asked) > shareTime {
		c.makeRoom()
		answer = &remembered[T]{ready: make(chan struct{}), asked: time.Now()}
		c.answers[question] = answer
		c.mutex.Unlock()
		c.ask(ctx, question, answer, ask)
	} else {
		c.mutex.Unlock()
	}
	select {
	case <-answer.ready:
		return answer.value, answer.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// ask runs a query. Other callers wait for it too, so it continues if the first caller
// disconnects, but not beyond the deadline of that caller. An error is returned to the
// current waiters only, and not kept.
func (c *cache[T]) ask(ctx context.Context, question string, answer *remembered[T], ask func(context.Context) (T, error)) {
	until := time.Now().Add(maxAsking)
	if deadline, limited := ctx.Deadline(); limited && deadline.Before(until) {
		until = deadline
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
	defer cancel()
	defer close(answer.ready)
	answer.err = errEnded // for the case that ask panics
	answer.value, answer.err = ask(ctx)
	if late := ctx.Err(); late != nil && answer.err != nil && !errors.Is(answer.err, late) {
		answer.err = fmt.Errorf("%w: %w", late, answer.err) // for waiters with a later deadline
	}
	if answer.err != nil {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		if c.answers[question] == answer {
			delete(c.answers, question)
		}
	}
}

// makeRoom removes old answers, and all answers if none is old. The caller holds mutex.
func (c *cache[T]) makeRoom() {
	if len(c.answers) < maxRemembered {
		return
	}
	for question, answer := range c.answers {
		if time.Since(answer.asked) > shareTime {
			delete(c.answers, question)
		}
	}
	if len(c.answers) >= maxRemembered {
		clear(c.answers)
	}
}

// forget clears the cache, so that all later callers query again.
func (c *cache[T]) forget() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.answers = map[string]*remembered[T]{}
}
