package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/printable"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest/internal/guard"
)

const (
	// mostCounted is the number up to which the page of jobs counts.
	mostCounted = 1000
	// countTime is how long it may count. A number is worth less than a page that
	// comes soon.
	countTime = 100 * time.Millisecond
	// maxNamed is the number of queues and types that a field offers.
	maxNamed = 100
)

// jobLimits are the numbers of jobs on a page that one can choose. A form with all of
// one page has no more than the filter of an action takes.
var jobLimits = []int{25, 50, 100}

// jobsData is what the page of jobs shows.
type jobsData struct {
	Filter  management.JobFilter
	States  []stateChoice
	More    bool // whether what the form hides at first is in use
	Chosen  []field
	Oldest  bool
	Limit   int
	Limits  []int
	Queues  []string
	Types   []string
	Jobs    []management.JobSummary
	Count   *management.Count // nil where counting would take too long
	First   string            // addresses, from the top of the site on; empty where there is none
	Next    string
	Actions []management.ActionKind
}

// stateChoice is a state that a form offers.
type stateChoice struct {
	State  amboy.JobState
	Chosen bool
}

func (d *Dashboard) jobs(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	err := known(query, append(slices.Concat(filterFields, noticeFields), "order", "limit", "cursor")...)
	if err != nil {
		return err
	}
	filter, err := parseFilter(query)
	if err != nil {
		return err
	}
	page, err := parsePage(query)
	if err != nil {
		return err
	}
	inspector := d.options.Inspector(r)
	var found management.JobPage
	var count *management.Count
	var queues []management.Queue
	var activity management.Activity
	err = together(
		func() (err error) { found, err = inspector.FindJobs(r.Context(), filter, page); return err },
		func() (err error) { count, err = countJobs(r.Context(), inspector, filter); return err },
		func() (err error) { queues, err = inspector.Queues(r.Context()); return unlessDenied(err) },
		func() (err error) { activity, err = inspector.Activity(r.Context(), longest); return unlessDenied(err) },
	)
	if err != nil {
		return err
	}
	if page.Cursor == "" && found.Next == "" {
		count = &management.Count{Count: len(found.Jobs)}
	}
	data := jobsData{
		Filter: filter, States: stateChoices(filter), Chosen: filterList(filter),
		Oldest: !page.Newest, Limit: page.Limit, Limits: jobLimits,
		Queues: queueNames(queues), Types: typeNames(activity),
		Jobs: found.Jobs, Count: count,
	}
	data.More = needsMore(data.Chosen) || data.Oldest || page.Limit != management.DefaultLimit
	if page.Cursor != "" {
		data.First = pageAddress(query, "")
	}
	if found.Next != "" {
		data.Next = pageAddress(query, found.Next)
	}
	v := d.view(r, "jobs", "Jobs", data)
	data.Actions = slices.DeleteFunc(management.ActionKinds(), func(kind management.ActionKind) bool {
		return !slices.ContainsFunc(actQueues(filter), func(queue string) bool { return v.May(string(kind), queue) })
	})
	return d.show(w, http.StatusOK, "jobs", v.With(data))
}

// actQueues are the queues that a filter is about; the one without a name stands for
// all.
func actQueues(f management.JobFilter) []string {
	if len(f.Queues) == 0 {
		return []string{""}
	}
	return f.Queues
}

// parsePage reads which page of jobs is meant.
func parsePage(query url.Values) (management.PageRequest, error) {
	page := management.PageRequest{Cursor: query.Get("cursor"), Limit: management.DefaultLimit, Newest: true}
	switch order := query.Get("order"); order {
	case "", "newest":
	case "oldest":
		page.Newest = false
	default:
		return page, invalid("order", order, "must be newest or oldest")
	}
	if text := query.Get("limit"); text != "" {
		limit, err := strconv.Atoi(text)
		if err != nil || !slices.Contains(jobLimits, limit) {
			return page, invalid("limit", text, "must be 25, 50 or 100")
		}
		page.Limit = limit
	}
	return page, nil
}

// pageAddress is the address of a page of jobs.
func pageAddress(query url.Values, cursor string) string {
	next := url.Values{}
	for name := range query {
		if values := given(query, name); len(values) > 0 && !slices.Contains(noticeFields, name) {
			next[name] = values
		}
	}
	next.Del("cursor")
	if cursor != "" {
		next.Set("cursor", cursor)
	}
	return "jobs?" + next.Encode()
}

func stateChoices(f management.JobFilter) []stateChoice {
	var choices []stateChoice
	for _, state := range amboy.JobStates() {
		choices = append(choices, stateChoice{state, slices.Contains(f.States, state)})
	}
	return choices
}

// needsMore is true where a filter has what the form hides at first.
func needsMore(chosen []field) bool {
	return slices.ContainsFunc(chosen, func(f field) bool {
		return !slices.Contains([]string{"queue", "state", "type", "id_pattern", "error"}, f.Name)
	})
}

// countJobs counts the jobs that a filter selects; nil where that takes too long.
func countJobs(ctx context.Context, inspector management.Inspector, filter management.JobFilter) (*management.Count, error) {
	limited, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	count, err := inspector.CountJobs(limited, filter, mostCounted)
	if err == nil {
		return &count, nil
	}
	isLate := limited.Err() != nil || errors.Is(err, context.DeadlineExceeded) // as of whoever began to count
	if isLate && ctx.Err() == nil {
		return nil, nil
	}
	return nil, err
}

// unlessDenied leaves out what a field offers of all queues, for a request that may read
// some of them only.
func unlessDenied(err error) error {
	var denied *guard.DeniedError
	if errors.As(err, &denied) {
		return nil
	}
	return err
}

// queueNames are the names of queues, as addresses have them, for a field to offer.
func queueNames(queues []management.Queue) []string {
	var names []string
	for _, queue := range queues[:min(len(queues), maxNamed)] {
		if printable.Is(queue.Name) { // a browser would show others as they are
			names = append(names, encodeQueue(queue.Name))
		}
	}
	return names
}

// longest asks for the activity of all the time that there is.
var longest = management.ActivityRequest{Last: management.MaxActivity}

// typeNames are the types that were seen lately, for a field to offer.
func typeNames(activity management.Activity) []string {
	var types []string
	for _, row := range activity.Rows {
		if row.Type != "" && printable.Is(row.Type) && !slices.Contains(types, row.Type) && len(types) < maxNamed {
			types = append(types, row.Type)
		}
	}
	slices.Sort(types)
	return types
}
