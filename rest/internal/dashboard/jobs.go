package dashboard

import (
	"context"
	"errors"
	"maps"
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
	// maxCounted is the largest number of jobs in each state that the page of jobs counts to.
	maxCounted = 1000
	// countTime is how long jobs are counted. The page gives up waiting for it countGrace later.
	// A fast page matters more than the numbers.
	countTime  = 100 * time.Millisecond
	countGrace = 50 * time.Millisecond
	// searchTime is how long a page searches for jobs and then counts them. Numbers that the
	// search leaves no time for are left out.
	searchTime = 200 * time.Millisecond
	// maxNamed is the maximum number of queues and types that a field suggests.
	maxNamed = 100
)

// jobLimits are the page sizes that a user can choose. None exceeds the number of IDs that
// the filter of an action accepts.
var jobLimits = []int{25, 50, 100}

// jobsData is the data of the page of jobs.
type jobsData struct {
	Filter  management.JobFilter
	Args    bool // whether arguments can be searched
	Tabs    []stateTab
	States  []stateChoice
	More    bool // whether the fields that are hidden at first are in use
	Chosen  []field
	Oldest  bool
	Limit   int
	Limits  []int
	Queues  []string
	Types   []string
	Jobs    []management.JobSummary
	Count   *management.Count // nil if counting took too long
	First   string            // addresses relative to the top of the site; empty if there is no such page
	Next    string
	Actions []management.ActionKind
}

// stateTab is a link to the jobs in a state, or in any state, that the rest of the filter
// selects.
type stateTab struct {
	State   amboy.JobState    // empty for any state
	Count   *management.Count // nil if counting took too long
	Link    string            // relative to the top of the site
	Current bool
}

// stateChoice is a state in the form.
type stateChoice struct {
	State  amboy.JobState
	Chosen bool
}

func (d *Dashboard) jobs(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	err := refuseUnknown(query, append(slices.Concat(filterFields, noticeFields), queuePart, "order", "limit", "cursor")...)
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
	var counts []management.StateCount
	var queues management.QueuePage
	var activity management.Activity
	isWhole := func() bool { return page.Cursor == "" && found.Next == "" }
	find := func() (err error) { found, err = inspector.FindJobs(r.Context(), filter, page); return err }
	count := func() (err error) { counts, err = countStates(r.Context(), inspector, filter, countTime); return err }
	if filter.Searches() { // counting searches again, which is not needed if the page has all jobs
		search, begun := find, time.Now()
		find = func() (err error) {
			err = search()
			if err != nil || isWhole() && len(filter.States) == 0 {
				return err
			}
			counts, err = countStates(r.Context(), inspector, filter, timeToCount(time.Since(begun)))
			return err
		}
		count = func() error { return nil }
	}
	err = runConcurrently(find, count,
		func() (err error) {
			queues, err = inspector.FindQueues(r.Context(), management.QueueFilter{}, suggested)
			return unlessDenied(err)
		},
		func() (err error) { activity, err = inspector.Activity(r.Context(), longest); return unlessDenied(err) },
	)
	if err != nil {
		return err
	}
	if isWhole() && len(filter.States) == 0 {
		counts = statesOf(found.Jobs)
	}
	sum := sumOf(counts, filter.States)
	if isWhole() {
		sum = &management.Count{Count: len(found.Jobs)}
	}
	data := jobsData{
		Filter: filter, Args: !d.options.HideArgs, Tabs: stateTabs(query, filter, counts), States: stateChoices(filter), Chosen: filterList(filter),
		Oldest: !page.Newest, Limit: page.Limit, Limits: jobLimits,
		Queues: queueNames(queues.Queues), Types: typeNames(activity),
		Jobs: found.Jobs, Count: sum,
	}
	data.More = needsMore(filter, data.Chosen) || data.Oldest || page.Limit != management.DefaultLimit
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

// actQueues returns the queues of a filter. The empty name stands for all queues.
func actQueues(f management.JobFilter) []string {
	if len(f.Queues) == 0 {
		return []string{""}
	}
	return f.Queues
}

// parsePage reads the order, the size and the cursor of a page.
func parsePage(query url.Values) (management.PageRequest, error) {
	page := management.PageRequest{Cursor: query.Get("cursor"), Limit: management.DefaultLimit, Newest: true, Args: true}
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

// pageAddress returns the address of a page of jobs.
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

// needsMore reports whether a filter uses fields that the form hides at first: those that are not
// at the top, and several states, because a tab selects one.
func needsMore(f management.JobFilter, chosen []field) bool {
	return len(f.States) > 1 || slices.ContainsFunc(chosen, func(f field) bool {
		return !slices.Contains([]string{"queue", "state", "type", "type_part", "id_part", "tag_part", "args_part", "error"}, f.Name)
	})
}

// timeToCount returns how long a page may count after a search. There are few different times, so
// that pages that are open at once share their counts.
func timeToCount(searched time.Duration) time.Duration {
	for _, within := range []time.Duration{countTime, countTime / 2} {
		if searched+within <= searchTime {
			return within
		}
	}
	return 0
}

// countStates counts the jobs that a filter selects by their states, whatever states it names.
// It returns nil if that takes too long, or if there is no time for it.
func countStates(ctx context.Context, inspector management.Inspector, filter management.JobFilter, within time.Duration) ([]management.StateCount, error) {
	if within == 0 {
		return nil, nil
	}
	filter.States = nil
	limited, cancel := context.WithTimeout(ctx, within+countGrace)
	defer cancel()
	counts, err := inspector.CountStates(limited, management.StateCountRequest{Filter: filter, Most: maxCounted, Within: within})
	isLate := limited.Err() != nil || errors.Is(err, context.DeadlineExceeded) // possibly the deadline of another waiter
	if err != nil && isLate && ctx.Err() == nil {
		return nil, nil
	}
	return counts, err
}

// statesOf counts jobs by their states.
func statesOf(jobs []management.JobSummary) []management.StateCount {
	var counts []management.StateCount
	for _, state := range amboy.JobStates() {
		n := 0
		for _, j := range jobs {
			if j.State == state {
				n++
			}
		}
		counts = append(counts, management.StateCount{State: state, Count: management.Count{Count: n}})
	}
	return counts
}

// sumOf adds up the jobs in some states, or in all if none is named. It returns nil if none was
// counted in time.
func sumOf(counts []management.StateCount, states []amboy.JobState) *management.Count {
	var sum management.Count
	for _, c := range counts {
		if len(states) == 0 || slices.Contains(states, c.State) {
			sum.Count += c.Count.Count
			sum.More = sum.More || c.More
		}
	}
	if counts == nil || sum.Count == 0 && sum.More {
		return nil
	}
	return &sum
}

// stateTabs returns a tab for all states and one for each.
func stateTabs(query url.Values, filter management.JobFilter, counts []management.StateCount) []stateTab {
	tabs := []stateTab{{Count: sumOf(counts, nil), Current: len(filter.States) == 0}}
	for _, state := range amboy.JobStates() {
		tabs = append(tabs, stateTab{
			State: state, Count: sumOf(counts, []amboy.JobState{state}), Current: slices.Contains(filter.States, state),
		})
	}
	for i, tab := range tabs {
		of := maps.Clone(query)
		of.Del("state")
		if tab.State != "" {
			of.Set("state", string(tab.State))
		}
		tabs[i].Link = pageAddress(of, "")
	}
	return tabs
}

// unlessDenied ignores a denial, so that a request that may read only some queues gets no
// suggestions instead of an error.
func unlessDenied(err error) error {
	var denied *guard.DeniedError
	if errors.As(err, &denied) {
		return nil
	}
	return err
}

// queueNames returns encoded names of queues as suggestions for a field.
func queueNames(queues []management.Queue) []string {
	var names []string
	for _, queue := range queues {
		if printable.Is(queue.Name) { // browsers show suggestions unescaped
			names = append(names, encodeQueue(queue.Name))
		}
	}
	return names
}

// suggested requests the queues that a field suggests.
var suggested = management.PageRequest{Limit: maxNamed}

// longest requests the activity of the longest period that is read quickly.
var longest = management.ActivityRequest{Last: 48 * time.Hour}

// typeNames returns recently seen types as suggestions for a field.
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
