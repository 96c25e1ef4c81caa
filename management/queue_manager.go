package management

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
)

// manager implements Manager over a source of jobs.
type manager struct {
	*inspector
	jobs source
	name string // of the queue or collection, for errors
}

// NewQueueManager returns a manager of one queue of any kind. It can be used as long as
// the queue can. If the queue is nil, every call on the manager returns an
// *InvalidArgumentError. The manager is also an Inspector (see NewInspector), whose
// calls return an error that wraps ErrUnsupported for a queue of another package.
func NewQueueManager(q amboy.Queue) Manager {
	m := &manager{inspector: inspectorOf(q)}
	if q == nil {
		return m
	}
	m.name = fmt.Sprintf("queue %q", q.ID())
	if store, ok := queue.StoreOf(q); ok && !store.ByReference() {
		m.jobs = storeSource{store}
	} else {
		m.jobs = plainQueueSource{q}
	}
	return m
}

func (m *manager) JobStatus(ctx context.Context, filter StatusFilter) ([]JobTypeCount, error) {
	if err := m.validate(filter.Validate()); err != nil {
		return nil, fmt.Errorf("counting jobs: %w", err)
	}
	counts := map[JobTypeCount]int{} // the Count of each key is 0
	for j, err := range m.jobs.find(ctx, filter.states(), "") {
		if err != nil {
			return nil, fmt.Errorf("counting the jobs of %s: %w", m.name, err)
		}
		if filter.selects(j) {
			counts[JobTypeCount{Type: j.jobType, Group: j.Group}]++
		}
	}
	return sorted(counts), nil
}

// sorted orders counts by type and group.
func sorted(counts map[JobTypeCount]int) []JobTypeCount {
	all := make([]JobTypeCount, 0, len(counts))
	for count, n := range counts {
		count.Count = n
		all = append(all, count)
	}
	slices.SortFunc(all, func(a, b JobTypeCount) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Group, b.Group))
	})
	return all
}

func (m *manager) JobIDsByState(ctx context.Context, jobType string, filter StatusFilter) ([]GroupedID, error) {
	if err := m.validate(validateType(jobType), filter.Validate()); err != nil {
		return nil, fmt.Errorf("listing jobs: %w", err)
	}
	ids := []GroupedID{}
	for j, err := range m.jobs.find(ctx, filter.states(), jobType) {
		if err != nil {
			return nil, fmt.Errorf("listing the jobs of %s: %w", m.name, err)
		}
		if filter.selects(j) {
			ids = append(ids, j.GroupedID)
		}
	}
	return ids, nil
}

// validate joins the errors of the arguments of a call, and adds one if the queue is nil.
func (m *manager) validate(errs ...error) error {
	if m.jobs == nil {
		errs = append(errs, invalid("queue", "nil", "must not be nil"))
	}
	return errors.Join(errs...)
}

func (m *manager) CompleteJob(ctx context.Context, id string) error {
	if err := m.validate(validateID(id)); err != nil {
		return fmt.Errorf("completing a job: %w", err)
	}
	jobs, err := m.jobs.locate(ctx, id)
	if err != nil {
		return fmt.Errorf("finding job %q in %s: %w", id, m.name, err)
	}
	if len(jobs) == 0 {
		return amboy.NewJobNotFoundErrorf("completing job %q: %s has no such job", id, m.name)
	}
	for _, j := range jobs {
		err := m.completeOne(ctx, j, func(*seen) bool { return true })
		if err != nil {
			return fmt.Errorf("completing job %q of %s: %w", id, m.name, err)
		}
	}
	return nil
}

func (m *manager) CompleteJobs(ctx context.Context, filter StatusFilter) error {
	if err := m.validate(filter.Validate()); err != nil {
		return fmt.Errorf("completing jobs: %w", err)
	}
	return m.completeAll(ctx, filter, "", filter.selects)
}

func (m *manager) CompleteJobsByType(ctx context.Context, filter StatusFilter, jobType string) error {
	if err := m.validate(filter.Validate(), validateType(jobType)); err != nil {
		return fmt.Errorf("completing jobs of a type: %w", err)
	}
	return m.completeAll(ctx, filter, jobType, filter.selects)
}

func (m *manager) CompleteJobsByPattern(ctx context.Context, filter StatusFilter, text string) error {
	ids, err := newPattern(text)
	if err = m.validate(filter.Validate(), err); err != nil {
		return fmt.Errorf("completing jobs by a pattern: %w", err)
	}
	return m.completeAll(ctx, filter, "", func(j *seen) bool { return filter.selects(j) && ids.matches(j.ID) })
}

// completeAll marks the selected jobs complete, page by page.
func (m *manager) completeAll(ctx context.Context, filter StatusFilter, jobType string, selected func(*seen) bool) error {
	page := make([]*seen, 0, pageSize)
	for j, err := range m.jobs.find(ctx, filter.unfinishedStates(), jobType) {
		if err == nil && j.progress != ended && selected(j) {
			page = append(page, j)
		}
		if err == nil && len(page) == pageSize {
			err = m.completePage(ctx, page, selected)
			page = page[:0]
		}
		if err != nil {
			return fmt.Errorf("completing jobs of %s: %w", m.name, err)
		}
	}
	if err := m.completePage(ctx, page, selected); err != nil {
		return fmt.Errorf("completing jobs of %s: %w", m.name, err)
	}
	return nil
}

// completePage marks jobs complete. A job that changed since it was read is read again,
// and a job that no longer exists is skipped.
func (m *manager) completePage(ctx context.Context, jobs []*seen, selected func(*seen) bool) error {
	if len(jobs) == 0 {
		return nil
	}
	failed := 0
	var first error
	for i, err := range m.jobs.markComplete(ctx, jobs) {
		if errors.Is(err, amboy.ErrLeaseLost) {
			err = m.completeOne(ctx, jobs[i].GroupedID, selected)
		}
		if err != nil && !amboy.IsJobNotFoundError(err) {
			failed++
			first = cmp.Or(first, err)
		}
	}
	if failed > 1 {
		return fmt.Errorf("%d jobs, the first of them: %w", failed, first)
	}
	return first
}

// maxTries is how often a job is read again if it changed since it was last read.
const maxTries = 100

// completeOne reads a job and marks it complete, unless it has ended or is no longer
// selected.
func (m *manager) completeOne(ctx context.Context, id GroupedID, selected func(*seen) bool) error {
	for range maxTries {
		j, err := m.jobs.get(ctx, id)
		if err != nil {
			return err
		}
		if j.progress == ended || !selected(j) {
			return nil
		}
		err = m.jobs.markComplete(ctx, []*seen{j})[0]
		if !errors.Is(err, amboy.ErrLeaseLost) {
			return err
		}
	}
	return fmt.Errorf("job %q changed %d times while it was updated: %w", id.ID, maxTries, amboy.ErrLeaseLost)
}
