package dashboard

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

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
	All    int // number of queues, and Found those that match Name
	Found  int
	From   int // the position of the first on the page, from 1
	// Previous and Next are addresses relative to the top of the site; empty if there is
	// no such page.
	Previous, Next string
}

// sorting is a choice of the order of queues.
type sorting struct{ Name, Text string }

var sortings = []sorting{
	{"name", "Name"}, {"pending", "Most pending"}, {"oldest", "Oldest job"}, {"failures", "Failure rate"},
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
	err := refuseUnknown(query, "name", "sort", "page", "last")
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
	page := 1
	if text := query.Get("page"); text != "" {
		page, err = strconv.Atoi(text)
		if err != nil || page < 1 || page > 1_000_000 {
			return invalid("page", text, "must be a whole number from 1")
		}
	}
	queues, activity, err := d.allQueues(r, chosen)
	if err != nil {
		return err
	}
	data.All = len(queues)
	rows := slices.DeleteFunc(queueRows(queues, activity), func(row queueRow) bool {
		return !strings.Contains(strings.ToLower(row.Name), strings.ToLower(data.Name))
	})
	slices.SortStableFunc(rows, order)
	data.Found = len(rows)
	from := min((page-1)*queuesLimit, len(rows))
	data.From = from + 1
	data.Queues = rows[from:min(from+queuesLimit, len(rows))]
	if page > 1 {
		data.Previous = queuesAddress(query, page-1)
	}
	if from+queuesLimit < len(rows) {
		data.Next = queuesAddress(query, page+1)
	}
	return d.show(w, http.StatusOK, "queues", d.view(r, "queues", "Queues", data))
}

func queuesAddress(query url.Values, page int) string {
	next := url.Values{}
	for _, name := range []string{"name", "sort", "last"} {
		if value := query.Get(name); value != "" {
			next.Set(name, value)
		}
	}
	next.Set("page", strconv.Itoa(page))
	return "queues?" + next.Encode()
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
	err := refuseUnknown(r.PostForm, "paused", "draining", "max_running", "workers")
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
	redirect(w, r, queuePath(name)+"?did=control")
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
	if change == (management.ControlChange{}) {
		return change, invalid("paused", "", ", draining, max_running or workers is required")
	}
	return change, nil
}
