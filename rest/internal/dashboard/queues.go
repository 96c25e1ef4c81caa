package dashboard

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
)

// queuesLimit is the number of queues on a page.
const queuesLimit = 50

// queuesData is the data of the list of queues.
type queuesData struct {
	windowChoice
	Name   string // filters by a part of the name
	Sort   string
	Sorts  []sorting
	Queues []queueRow
	// First and Next are addresses relative to the top of the site; empty if there is no such
	// page. Only the queues by name have several pages.
	First, Next string
}

// sorting is a choice of the order of queues.
type sorting struct{ Name, Text string }

var sortings = []sorting{
	{"name", "Name"}, {"pending", "Most waiting"}, {"oldest", "Oldest job"}, {"failures", "Failure rate"},
}

// queueOrders maps the names of orders to their compare functions.
var queueOrders = map[string]func(a, b queueRow) int{
	"name":     func(a, b queueRow) int { return cmp.Compare(a.Name, b.Name) },
	"pending":  func(a, b queueRow) int { return cmp.Compare(b.Counts.Pending, a.Counts.Pending) },
	"oldest":   func(a, b queueRow) int { return compareOldest(a.OldestPending, b.OldestPending) },
	"failures": func(a, b queueRow) int { return cmp.Compare(b.Recent.FailureRate, a.Recent.FailureRate) },
}

// compareOldest sorts queues without pending jobs last.
func compareOldest(a, b time.Time) int {
	switch {
	case a.IsZero() && b.IsZero():
		return 0
	case a.IsZero():
		return 1
	case b.IsZero():
		return -1
	default:
		return a.Compare(b)
	}
}

func (d *Dashboard) queues(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	err := refuseUnknown(query, "name", "sort", "cursor", "last")
	if err != nil {
		return err
	}
	chosen, err := windowOf(r)
	if err != nil {
		return err
	}
	data := queuesData{windowChoice: windowChoice{chosen, windows}, Name: query.Get("name"), Sort: query.Get("sort"), Sorts: sortings}
	if data.Sort == "" {
		data.Sort = "name"
	}
	order, found := queueOrders[data.Sort]
	if !found {
		return invalid("sort", data.Sort, "must be name, pending, oldest or failures")
	}
	inspector, cursor := d.options.Inspector(r), query.Get("cursor")
	if cursor != "" && data.Sort != "name" {
		return invalid("cursor", cursor, "must be empty for this order")
	}
	var page management.QueuePage
	var activity management.Activity
	if data.Sort == "name" {
		page, activity, err = pageByName(r.Context(), inspector, data.Name, cursor, chosen)
	} else {
		page, activity, err = firstQueues(r.Context(), inspector, data.Name, data.Sort, chosen)
	}
	if err != nil {
		return err
	}
	data.Queues = queueRows(page.Queues, activity)
	slices.SortStableFunc(data.Queues, order)
	data.Queues = data.Queues[:min(len(data.Queues), queuesLimit)]
	data.First, data.Next = pageLinks("queues", query, page.Next)
	return d.show(w, http.StatusOK, "queues", d.view(r, "queues", "Queues", data))
}

// pageByName reads a page of queues in the order of their names, and their activity.
func pageByName(ctx context.Context, inspector management.Inspector, name, cursor string, chosen window) (page management.QueuePage, activity management.Activity, err error) {
	page, err = inspector.FindQueues(ctx, management.QueueFilter{Name: name}, management.PageRequest{Cursor: cursor, Limit: queuesLimit})
	if err != nil || len(page.Queues) == 0 {
		return page, activity, err
	}
	names := make([]string, len(page.Queues))
	for i, queue := range page.Queues {
		names[i] = queue.Name
	}
	activity, err = inspector.Activity(ctx, management.ActivityRequest{Queues: names, Last: chosen.Last})
	return page, activity, err
}

// firstQueues reads, for an order other than by name, the queues that may come first, and their
// activity: the busiest queues, or those with the highest failure rates.
func firstQueues(ctx context.Context, inspector management.Inspector, name, sort string, chosen window) (page management.QueuePage, activity management.Activity, err error) {
	activity, err = inspector.Activity(ctx, management.ActivityRequest{Last: chosen.Last})
	if err != nil {
		return page, activity, err
	}
	if sort != "failures" {
		var totals management.QueueTotals
		totals, err = inspector.SumQueues(ctx)
		page.Queues = slices.DeleteFunc(totals.Busiest, func(queue management.Queue) bool { return !contains(queue.Name, name) })
		return page, activity, err
	}
	rates := recentOf(activity)
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(rates)), func(queue string) bool {
		return rates[queue].Failed == 0 || !contains(queue, name)
	})
	if len(names) == 0 {
		return page, activity, nil
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(rates[b].FailureRate, rates[a].FailureRate) })
	page, err = inspector.FindQueues(ctx, management.QueueFilter{Queues: names[:min(len(names), queuesLimit)]}, management.PageRequest{Limit: queuesLimit})
	page.Next = ""
	return page, activity, err
}

// contains reports whether a name has a part, whatever the case.
func contains(name, part string) bool {
	return strings.Contains(strings.ToLower(name), strings.ToLower(part))
}

// queueData is the data of the page of a queue.
type queueData struct {
	windowChoice
	management.Queue
	Activity   management.Activity
	Charts     []chart
	MaxWorkers int
}

func (d *Dashboard) queue(w http.ResponseWriter, r *http.Request) error {
	err := refuseUnknown(r.URL.Query(), append(slices.Clone(noticeFields), "last")...)
	if err != nil {
		return err
	}
	name, err := queueOf(r)
	if err != nil {
		return err
	}
	chosen, err := windowOf(r)
	if err != nil {
		return err
	}
	inspector := d.options.Inspector(r)
	var queue management.Queue
	var activity management.Activity
	err = runConcurrently(
		func() (err error) { queue, err = inspector.Queue(r.Context(), name); return err },
		func() (err error) {
			activity, err = inspector.Activity(r.Context(), management.ActivityRequest{Queues: []string{name}, Last: chosen.Last})
			return err
		},
	)
	if err != nil {
		return err
	}
	return d.show(w, http.StatusOK, "queue", d.view(r, "queues", "Queue "+shownName(queue.Name), queueData{
		windowChoice: windowChoice{chosen, windows},
		Queue:        queue,
		Activity:     activity,
		Charts:       activityCharts(activity),
		MaxWorkers:   management.MaxWorkers,
	}))
}

// control changes the controls of a queue.
func (d *Dashboard) control(w http.ResponseWriter, r *http.Request) error {
	err := refuseUnknown(r.PostForm, "paused", "draining", "max_running", "rate", "burst", "no_rate", "workers", "type")
	if err != nil {
		return err
	}
	name, err := queueOf(r)
	if err != nil {
		return err
	}
	change, err := parseControl(r.PostForm)
	if err != nil {
		return err
	}
	_, err = d.options.Inspector(r).SetControl(r.Context(), name, change)
	if err != nil {
		return err
	}
	redirect(w, r, withNotice(w, r, queuePath(name), "control", 1, 0))
	return nil
}

func parseControl(form url.Values) (management.ControlChange, error) {
	var change management.ControlChange
	for name, set := range map[string]**bool{"paused": &change.Paused, "draining": &change.Draining} {
		switch value := form.Get(name); value {
		case "":
		case "true", "false":
			on := value == "true"
			*set = &on
		default:
			return change, invalid(name, value, "must be true or false")
		}
	}
	for name, set := range map[string]**int{"max_running": &change.MaxRunning, "workers": &change.Workers} {
		if form.Get(name) == "" {
			continue
		}
		n, err := parseInt(form, name)
		if err != nil {
			return change, err
		}
		*set = &n
	}
	err := parseRate(form, &change)
	if err != nil {
		return change, err
	}
	if form.Has("type") {
		return limitOfType(form, change)
	}
	if change == (management.ControlChange{}) {
		return change, invalid("form", "", "must set paused, draining, max_running, rate, no_rate or workers")
	}
	return change, nil
}

// limitOfType makes the limits of a form those of the type that it names. A limit that the form does
// not have is removed.
func limitOfType(form url.Values, change management.ControlChange) (management.ControlChange, error) {
	of := &management.TypeLimitChange{Type: form.Get("type"), TypeLimit: amboy.TypeLimit{Rate: change.Rate}}
	if change.MaxRunning != nil {
		of.MaxRunning = *change.MaxRunning
	}
	change.MaxRunning, change.Rate = nil, nil
	if change != (management.ControlChange{}) {
		return change, invalid("type", of.Type, "can only have max_running, rate and burst")
	}
	return management.ControlChange{TypeLimit: of}, nil
}

// parseRate parses a rate and its burst, which is optional.
func parseRate(form url.Values, change *management.ControlChange) error {
	switch value := form.Get("no_rate"); value {
	case "":
	case "true":
		change.NoRate = true
	default:
		return invalid("no_rate", value, "must be true")
	}
	if form.Get("rate") == "" {
		if form.Get("burst") != "" {
			return invalid("burst", form.Get("burst"), "needs a rate")
		}
		return nil
	}
	perSecond, err := strconv.ParseFloat(strings.TrimSpace(form.Get("rate")), 64)
	if err != nil {
		return invalid("rate", form.Get("rate"), "must be a number")
	}
	change.Rate = &amboy.Rate{PerSecond: perSecond}
	if form.Get("burst") != "" {
		change.Rate.Burst, err = parseInt(form, "burst")
	}
	return err
}
