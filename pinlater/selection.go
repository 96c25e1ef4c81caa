package pinlater

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/internal/records"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue/driver"
)

// pageSize is how many jobs are read at a time. All are in memory, with their bodies.
const pageSize = 100

// selection selects jobs of a queue.
type selection struct {
	queue string
	// states are the accepted states; none means all.
	states []amboy.JobState
	// priority is the accepted priority; 0 means all.
	priority int
	// body is searched for in the bodies; nil means any body.
	body *regexp.Regexp
	// newest begins with the job that was put last.
	newest bool
}

// query returns the query for a selection. It also selects jobs of other priorities if that of
// the selection is the first.
func (s *Server) query(sel selection) driver.Query {
	q := driver.Query{Queues: []string{s.stored(sel.queue)}, States: sel.states, Types: []string{s.opts.JobType}, Latest: true}
	if sel.priority != 0 {
		q.Tags = tagsOf(sel.priority)
	}
	return q
}

// find calls do with the selected jobs until it returns false. If the selection is by body, jobs
// that can't be decoded here are left out, and their number is logged.
func (s *Server) find(ctx context.Context, sel selection, do func(*driver.Record) (more bool, err error)) error {
	query := s.query(sel)
	unread := 0
	defer func() {
		if unread > 0 {
			logging.Warning(ctx, message.Fields{
				"message": "left out jobs from a search by body, because they can't be decoded",
				"queue":   sel.queue,
				"jobs":    unread,
			})
		}
	}()
	for r, err := range records.Each(ctx, s.driver, query, driver.PageRequest{Limit: pageSize, Newest: sel.newest}) {
		if err != nil {
			return fmt.Errorf("finding jobs of queue %q: %w", sel.queue, err)
		}
		if sel.priority != 0 && priorityOf(r.Tags) != sel.priority {
			continue
		}
		matches, err := s.matches(ctx, sel.body, r)
		switch {
		case errors.Is(err, outside.ErrUndecodable):
			unread++
			continue
		case err != nil:
			return err
		case !matches:
			continue
		}
		if more, err := do(r); err != nil || !more {
			return err
		}
	}
	return nil
}

func (s *Server) matches(ctx context.Context, body *regexp.Regexp, r *driver.Record) (bool, error) {
	if body == nil {
		return true, nil
	}
	content, err := s.bodyOf(ctx, r)
	return err == nil && body.Match(content), err
}

// bodyOf returns the body of a job.
func (s *Server) bodyOf(ctx context.Context, r *driver.Record) ([]byte, error) {
	j, err := s.leases.Decode(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("reading a body: %w", err)
	}
	payload, _ := job.PayloadOf(j)
	return bytesOf(payload), nil
}

// bytesOf returns a payload as a body.
func bytesOf(p job.Payload) []byte {
	switch {
	case p.Bytes != nil:
		return p.Bytes
	case p.JSON != nil:
		return p.JSON
	default:
		return []byte{}
	}
}

// maxPattern is the maximum length of a regular expression.
const maxPattern = 4 << 10

// compile compiles a regular expression; nil for an absent or empty one. The error completes a sentence
// that begins with the name of the field.
func compile(pattern *string) (*regexp.Regexp, error) {
	if pattern == nil || *pattern == "" {
		return nil, nil //nolint:nilnil // There is no expression then.
	}
	if len(*pattern) > maxPattern {
		return nil, fmt.Errorf("must have at most %d bytes (has %d)", maxPattern, len(*pattern))
	}
	compiled, err := regexp.Compile(*pattern)
	if err != nil {
		return nil, fmt.Errorf("must be a regular expression: %w", err)
	}
	return compiled, nil
}

// remove deletes jobs for good, whatever their state, and returns how many of them. The
// worker of a job that runs loses its lease.
func (s *Server) remove(ctx context.Context, queueName string, found []*driver.Record) (removed int, err error) {
	var unfinished []*driver.Record
	ids := make([]string, len(found))
	for i, r := range found {
		ids[i] = r.JobID()
		if !r.Status.Completed || r.RetryInfo.ShouldRetry() {
			canceled := *r
			canceled.Status.Outcome = amboy.OutcomeCanceled
			unfinished = append(unfinished, &canceled)
		}
	}
	for _, err = range s.store.MarkComplete(ctx, unfinished) {
		// A job that has changed since it was read is left alone.
		if err != nil && !amboy.IsJobNotFoundError(err) && !isLeaseLost(err) {
			return 0, err
		}
	}
	for some := range slices.Chunk(ids, pageSize) {
		n, err := s.removeEnded(ctx, s.stored(queueName), some)
		removed += n
		if err != nil {
			return removed, fmt.Errorf("deleting jobs of queue %q: %w", queueName, err)
		}
	}
	return removed, nil
}

// removeEnded deletes those of the jobs that have ended, with all attempts.
func (s *Server) removeEnded(ctx context.Context, stored string, ids []string) (int, error) {
	ended, err := s.leases.Find(ctx, stored, ids)
	if err != nil {
		return 0, err
	}
	ended = slices.DeleteFunc(ended, func(r *driver.Record) bool { return !r.Status.Completed || r.RetryInfo.ShouldRetry() })
	if len(ended) == 0 {
		return 0, nil
	}
	for i, r := range ended {
		ids[i] = r.JobID()
	}
	ids = ids[:len(ended)]
	request := driver.ActRequest{
		Query: driver.Query{Queues: []string{stored}, JobIDs: ids}, Action: driver.Action{Kind: driver.Delete}, Limit: pageSize,
	}
	for {
		acted, err := s.driver.Act(ctx, request)
		if err != nil {
			return 0, err
		}
		if acted.Next == "" {
			return len(ended), nil
		}
		request.After = acted.Next
	}
}
