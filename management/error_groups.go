package management

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// ErrorGroupRequest requests groups of errors.
type ErrorGroupRequest struct {
	Filter JobFilter `json:"filter"`
	// Cursor is the Next of the previous result; empty for the latest jobs.
	Cursor string `json:"cursor,omitempty"`
	// Limit is the maximum number of groups, up to MaxLimit; 0 means DefaultLimit.
	Limit int `json:"limit,omitempty"`
}

// ErrorGroups are groups of jobs by their errors.
type ErrorGroups struct {
	// Groups are the groups with the most jobs, in descending order of that number.
	Groups []ErrorGroup `json:"groups"`
	// MoreGroups is the number of smaller groups that were left out.
	MoreGroups int `json:"more_groups"`
	// Examined counts the jobs that were examined, and have an error.
	Examined int `json:"examined"`
	// Next is the cursor for older jobs, whose groups are counted separately. It is empty if
	// all jobs were examined.
	Next string `json:"next,omitempty"`
}

// ErrorGroup describes the jobs of one group.
type ErrorGroup struct {
	// Message is the folded message. As JobFilter.ErrorGroup it selects the jobs of the group.
	Message string `json:"message"`
	// Jobs is the number of examined jobs.
	Jobs int `json:"jobs"`
	// Types are the types of the jobs, sorted, at most MaxGroupTypes.
	Types []string `json:"types"`
	// MoreTypes is true if the jobs have more types than Types lists.
	MoreTypes bool `json:"more_types,omitempty"`
	// First and Last are when the first and the last of the jobs ended, or started if
	// they have not ended.
	First time.Time `json:"first,omitzero"`
	Last  time.Time `json:"last,omitzero"`
	// Sample is the latest of the jobs.
	Sample JobSummary `json:"sample"`
}

const (
	// examinedAtOnce is the number of records that are read at once to group them.
	examinedAtOnce = 5000
	// maxGroups is the largest number of groups that are counted at once: messages that
	// do not fold must not take all memory.
	maxGroups = 10_000
)

// Validate returns an *InvalidArgumentError for each field that is not valid, joined. It does
// not check Cursor.
func (r ErrorGroupRequest) Validate() error {
	_, err := PageRequest{Limit: r.Limit}.limit()
	return cmp.Or(r.Filter.Validate(), err)
}

func (i *inspector) ErrorGroups(ctx context.Context, req ErrorGroupRequest) (ErrorGroups, error) {
	if err := i.check(req.Validate()); err != nil {
		return ErrorGroups{}, fmt.Errorf("grouping errors: %w", err)
	}
	groups, err := i.errorGroups(ctx, req)
	if err != nil {
		return ErrorGroups{}, fmt.Errorf("grouping errors: %w", err)
	}
	return groups, nil
}

func (i *inspector) errorGroups(ctx context.Context, req ErrorGroupRequest) (ErrorGroups, error) {
	queues, err := i.resolveQueues(req.Filter.Queues)
	if err != nil {
		return ErrorGroups{}, err
	}
	list, err := listDigest("error groups", req.Filter)
	if err != nil {
		return ErrorGroups{}, err
	}
	after, err := i.decodeCursor(ctx, list, req.Cursor)
	if err != nil {
		return ErrorGroups{}, err
	}
	g := errorGrouping{inspector: i, groups: map[string]*errorGroup{}}
	next, err := g.examine(ctx, req, queues, driver.Cursor(after))
	if err != nil {
		return ErrorGroups{}, err
	}
	found, err := g.largest(ctx, cmp.Or(req.Limit, DefaultLimit))
	if err != nil {
		return ErrorGroups{}, err
	}
	found.Next, err = i.encodeCursor(ctx, list, string(next))
	return found, err
}

// errorGrouping counts jobs by their folded errors.
type errorGrouping struct {
	*inspector
	groups   map[string]*errorGroup
	examined int
}

// errorGroup is a group that is being counted.
type errorGroup struct {
	ErrorGroup
	sample *driver.Record
}

// examine adds the jobs after a cursor, until it has examined enough, and returns where the
// next call continues.
func (g *errorGrouping) examine(ctx context.Context, req ErrorGroupRequest, queues []string, after driver.Cursor) (driver.Cursor, error) {
	matches, query := req.Filter.matcher(), req.Filter.query(queues)
	page := driver.PageRequest{After: after, Limit: examinedAtOnce, Newest: true, Brief: true, Body: req.Filter.body()}
	for begun := time.Now(); ; {
		found, err := g.store.Admin().Find(ctx, query, page)
		if err != nil {
			return "", cursorError(req.Cursor, err)
		}
		for _, r := range only(found.Records, matches) {
			g.add(r)
		}
		page.After = found.Next
		if found.Next == "" || g.examined >= MaxGroupJobs || len(g.groups) >= maxGroups || time.Since(begun) > MaxGroupTime {
			return found.Next, nil
		}
	}
}

// add adds a job, which is older than those before it.
func (g *errorGrouping) add(r *driver.Record) {
	text := driver.LastError(r.Status.Errors)
	if text == "" {
		return
	}
	g.examined++
	message := FoldError(text)
	group := g.groups[message]
	if group == nil {
		group = &errorGroup{ErrorGroup{Message: message}, r}
		g.groups[message] = group
	}
	group.Jobs++
	at := r.TimeInfo.End
	if at.IsZero() {
		at = r.TimeInfo.Start
	}
	if !at.IsZero() && (group.First.IsZero() || at.Before(group.First)) {
		group.First = at
	}
	if at.After(group.Last) {
		group.Last = at
	}
	if !slices.Contains(group.Types, r.Type) {
		if len(group.Types) < MaxGroupTypes {
			group.Types = append(group.Types, r.Type)
		} else {
			group.MoreTypes = true
		}
	}
}

// largest returns the groups with the most jobs, up to limit.
func (g *errorGrouping) largest(ctx context.Context, limit int) (ErrorGroups, error) {
	all := make([]*errorGroup, 0, len(g.groups))
	for _, group := range g.groups {
		all = append(all, group)
	}
	slices.SortFunc(all, func(a, b *errorGroup) int {
		return cmp.Or(cmp.Compare(b.Jobs, a.Jobs), b.Last.Compare(a.Last), cmp.Compare(a.Message, b.Message))
	})
	shown := all[:min(len(all), limit)]
	found := ErrorGroups{Groups: make([]ErrorGroup, len(shown)), MoreGroups: len(all) - len(shown), Examined: g.examined}
	for n, group := range shown {
		slices.Sort(group.Types)
		sample, err := g.store.Admin().Get(ctx, group.sample.Group, group.sample.JobID())
		if amboy.IsJobNotFoundError(err) {
			sample, err = group.sample, nil // it was removed meanwhile
		}
		if err != nil {
			return ErrorGroups{}, err
		}
		group.Sample = g.summary(sample)
		found.Groups[n] = group.ErrorGroup
	}
	return found, nil
}
