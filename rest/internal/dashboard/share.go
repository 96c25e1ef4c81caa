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

// shareTime is how old what several requests share may be.
const shareTime = time.Second

// Share returns an Inspector that asks another. What is expensive, and the same for
// many open pages, it asks once and remembers for a second: the queues, their activity,
// and counts of jobs. What is changed through it is seen at once.
//
// It does not know who asks. So what decides who may see what must be above it.
func Share(inspector management.Inspector) management.Inspector {
	return &shared{
		Inspector: inspector,
		queues:    newCache[[]management.Queue](),
		queue:     newCache[management.Queue](),
		activity:  newCache[management.Activity](),
		counts:    newCache[management.Count](),
	}
}

// shared is an Inspector that remembers.
type shared struct {
	management.Inspector
	queues   *cache[[]management.Queue]
	queue    *cache[management.Queue]
	activity *cache[management.Activity]
	counts   *cache[management.Count]
}

func (s *shared) Queues(ctx context.Context) ([]management.Queue, error) {
	queues, err := s.queues.get(ctx, "", s.Inspector.Queues)
	return slices.Clone(queues), err
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

// Watch forgets what is remembered before it tells of a change: whoever looks then must
// see it.
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

func (s *shared) Act(ctx context.Context, req management.ActRequest) (management.Acted, error) {
	if !req.DryRun {
		defer s.forget()
	}
	return s.Inspector.Act(ctx, req)
}

func (s *shared) forget() {
	s.queues.forget()
	s.queue.forget()
	s.activity.forget()
	s.counts.forget()
}

// key tells requests apart.
func key(parts ...any) string {
	encoded, err := json.Marshal(parts)
	if err != nil { // these types can be encoded, or not at all
		panic(fmt.Sprintf("encoding %T: %v", parts, err))
	}
	return string(encoded)
}

var errEnded = errors.New("asking for what several pages share did not end")

const (
	// maxRemembered is the number of answers of a kind that are remembered.
	maxRemembered = 256
	// maxAsking is how long a question that several share may take.
	maxAsking = 30 * time.Second
)

// cache remembers answers by the questions. It is safe for concurrent use.
type cache[T any] struct {
	mutex   sync.Mutex
	answers map[string]*remembered[T]
}

// remembered is an answer, or one that somebody asks for. What it has may be read when
// ready is closed.
type remembered[T any] struct {
	ready chan struct{}
	value T
	err   error
	asked time.Time
}

func newCache[T any]() *cache[T] { return &cache[T]{answers: map[string]*remembered[T]{}} }

// get returns an answer that is no older than shareTime, and asks where there is none.
// Of those who come while one asks, all get the answer to that.
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

// ask gets an answer. Others wait for it too, so that it goes on where the one who asks
// first leaves; but not for longer than that one has time. An error is for those who wait
// now, and not for those who come later.
func (c *cache[T]) ask(ctx context.Context, question string, answer *remembered[T], ask func(context.Context) (T, error)) {
	until := time.Now().Add(maxAsking)
	if deadline, limited := ctx.Deadline(); limited && deadline.Before(until) {
		until = deadline
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
	defer cancel()
	defer close(answer.ready)
	answer.err = errEnded // where ask panics
	answer.value, answer.err = ask(ctx)
	if late := ctx.Err(); late != nil && answer.err != nil && !errors.Is(answer.err, late) {
		answer.err = fmt.Errorf("%w: %w", late, answer.err) // so that others know, who have more time
	}
	if answer.err != nil {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		if c.answers[question] == answer {
			delete(c.answers, question)
		}
	}
}

// makeRoom forgets what is old, and all where nothing is. The caller holds mutex.
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

// forget makes all who come from now on ask again.
func (c *cache[T]) forget() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.answers = map[string]*remembered[T]{}
}
