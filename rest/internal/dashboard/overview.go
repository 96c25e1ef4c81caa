package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/mongodb/amboy/management"
)

// window is a period up to now.
type window struct {
	Name string // in addresses
	Text string
	Last time.Duration
}

var windows = []window{
	{"15m", "15 min", 15 * time.Minute},
	{"1h", "1 hour", time.Hour},
	{"6h", "6 hours", 6 * time.Hour},
	{"48h", "48 hours", 48 * time.Hour},
	{"30d", "30 days", 30 * 24 * time.Hour},
}

// windowOf returns the window of a request. The default is an hour.
func windowOf(r *http.Request) (window, error) {
	name := r.URL.Query().Get("last")
	if name == "" {
		return windows[1], nil
	}
	i := slices.IndexFunc(windows, func(w window) bool { return w.Name == name })
	if i < 0 {
		return window{}, invalid("last", name, "must be 15m, 1h, 6h, 48h or 30d")
	}
	return windows[i], nil
}

// windowChoice is the data of the template for choosing a window.
type windowChoice struct {
	Chosen  window
	Windows []window
}

// queueRow is a queue in a list, with its recent activity.
type queueRow struct {
	management.Queue
	Recent recent
}

// recent is the recent activity of several types or queues.
type recent struct {
	Ended, Failed int
	Current       float64 // attempts per second in the last minute
	FailureRate   float64
}

func (d *recent) add(row management.ActivityRow) {
	d.Ended += row.Succeeded + row.Failed + row.Retried
	d.Failed += row.Failed + row.Retried
	d.Current += row.Current
	if d.Ended > 0 {
		d.FailureRate = float64(d.Failed) / float64(d.Ended)
	}
}

// recentOf returns the recent activity of queues by name.
func recentOf(activity management.Activity) map[string]*recent {
	by := map[string]*recent{}
	for _, row := range activity.Rows {
		if by[row.Queue] == nil {
			by[row.Queue] = &recent{}
		}
		by[row.Queue].add(row)
	}
	return by
}

func queueRows(queues []management.Queue, activity management.Activity) []queueRow {
	by := recentOf(activity)
	rows := make([]queueRow, len(queues))
	for i, queue := range queues {
		rows[i] = queueRow{Queue: queue}
		if d := by[queue.Name]; d != nil {
			rows[i].Recent = *d
		}
	}
	return rows
}

// overviewData is the data of the overview.
type overviewData struct {
	windowChoice
	Sum    management.Counts
	Oldest management.Queue // among the busiest, the queue with the oldest job that could start
	Recent management.ActivityRow
	Charts []chart
	// Queues are the queues with the most unfinished jobs, and All is the number of queues.
	Queues []queueRow
	All    int
	Fails  []management.ActivityRow
	// Unknown are the busiest queues with jobs that no process can run.
	Unknown []management.Queue
}

const (
	overviewQueues = 15
	overviewFails  = 8
)

func (d *Dashboard) overview(w http.ResponseWriter, r *http.Request) error {
	if location, wrong := withSlash(r); wrong {
		w.Header().Set("Location", location)
		w.WriteHeader(http.StatusFound)
		return nil
	}
	err := refuseUnknown(r.URL.Query(), "last")
	if err != nil {
		return err
	}
	chosen, err := windowOf(r)
	if err != nil {
		return err
	}
	var totals management.QueueTotals
	var activity management.Activity
	inspector, ctx := d.options.Inspector(r), r.Context()
	err = runConcurrently(
		func() (err error) { totals, err = inspector.SumQueues(ctx); return err },
		func() (err error) {
			activity, err = inspector.Activity(ctx, management.ActivityRequest{Last: chosen.Last})
			return err
		},
	)
	if err != nil {
		return err
	}
	data := overviewData{
		windowChoice: windowChoice{chosen, windows},
		Sum:          totals.Counts,
		Recent:       activity.Sum,
		Charts:       activityCharts(activity),
		Fails:        failing(activity.Rows),
	}
	for _, queue := range totals.Busiest {
		data.add(queue)
	}
	shown, err := shownQueues(ctx, inspector, totals.Busiest)
	if err != nil {
		return err
	}
	data.Queues, data.All = queueRows(shown, activity), max(totals.Queues, len(shown))
	return d.show(w, http.StatusOK, "overview", d.view(r, "overview", "Overview", data))
}

// shownQueues returns the busiest queues and, if these are few, the first idle ones.
func shownQueues(ctx context.Context, inspector management.Inspector, busiest []management.Queue) ([]management.Queue, error) {
	if len(busiest) >= overviewQueues {
		return busiest[:overviewQueues], nil
	}
	first, err := inspector.FindQueues(ctx, management.QueueFilter{}, management.PageRequest{Limit: overviewQueues})
	shown := slices.Clone(busiest)
	for _, queue := range first.Queues {
		isShown := slices.ContainsFunc(busiest, func(q management.Queue) bool { return q.Name == queue.Name })
		if !isShown && len(shown) < overviewQueues {
			shown = append(shown, queue)
		}
	}
	return shown, err
}

// withSlash returns the address of the top of the site if the request's address lacks the
// slash at its end. Relative links would be wrong without it.
func withSlash(r *http.Request) (location string, wrong bool) {
	asked, query, _ := strings.Cut(r.RequestURI, "?")
	if !strings.HasPrefix(asked, "/") || strings.HasSuffix(asked, "/") {
		return "", false
	}
	location = "./" + path.Base(asked) + "/"
	if query != "" {
		location += "?" + query
	}
	return location, true
}

func (o *overviewData) add(queue management.Queue) {
	if len(queue.Unknown) > 0 {
		o.Unknown = append(o.Unknown, queue)
	}
	oldest := queue.OldestPending
	if !oldest.IsZero() && (o.Oldest.OldestPending.IsZero() || oldest.Before(o.Oldest.OldestPending)) {
		o.Oldest = queue
	}
}

// failing returns the rows with the most failed attempts.
func failing(rows []management.ActivityRow) []management.ActivityRow {
	rows = slices.DeleteFunc(slices.Clone(rows), func(row management.ActivityRow) bool { return row.Failed+row.Retried == 0 })
	slices.SortStableFunc(rows, func(a, b management.ActivityRow) int {
		return cmp.Compare(b.Failed+b.Retried, a.Failed+a.Retried)
	})
	return rows[:min(len(rows), overviewFails)]
}
