package dashboard

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/mongodb/amboy/management"
)

// chart is a stacked bar chart over time. Its measures are in units of the SVG.
type chart struct {
	ID    string
	Title string
	// Desc describes the chart in words.
	Desc   string
	Unit   string
	Series []series
	Times  []time.Time
	// IsTime is true if the values are times in milliseconds, and not numbers of jobs.
	IsTime bool
	// Adds is true if the sum of the values over time has a meaning, which the description has.
	Adds bool

	Width, Height            int
	Left, Right, Top, Bottom int
	Lines                    []tick
	Labels                   []tick
	// Bars are the bars, and Rows the rows of the equivalent table. They make up most of
	// a page with charts, and contain only numbers and times. So they are rendered in Go,
	// which takes a tenth of the time of a template.
	Bars, Rows template.HTML
}

// unknown is the value of a time for which nothing was recorded.
const unknown = -1

// series is one value for each time. Its class selects color and pattern.
type series struct {
	Name, Class string
	Values      []int
}

// hatched is the class of bars with a pattern.
const hatched = "failed"

// tick is a line or a label at a position.
type tick struct {
	At   string
	Text string
	// Minor ticks are hidden on small screens.
	Minor bool
}

// activityCharts returns charts of the backlog, of how long its oldest job has waited, of the
// successes, of the failures, and of how long jobs waited.
func activityCharts(activity management.Activity) []chart {
	n := len(activity.Points)
	times := make([]time.Time, n)
	succeeded, failed, retried, waited := make([]int, n), make([]int, n), make([]int, n), make([]int, n)
	ready, oldest := make([]int, n), make([]int, n)
	for i, point := range activity.Points {
		times[i], succeeded[i], failed[i], retried[i] = point.Time, point.Succeeded, point.Failed, point.Retried
		waited[i] = int(math.Ceil(point.WaitP99 * 1000))
		ready[i], oldest[i] = unknown, unknown
		if point.Backlog != nil {
			ready[i], oldest[i] = point.Backlog.Ready, int(math.Ceil(point.Backlog.OldestReady*1000))
		}
	}
	step := time.Duration(activity.Step * float64(time.Second))
	unit := "per " + span(step)
	switch step {
	case time.Minute:
		unit = "per minute"
	case time.Hour:
		unit = "per hour"
	}
	most := "most in " + span(step)
	if step == time.Minute {
		most = "in each minute"
	}
	backlog := chart{
		ID: "backlog", Title: "Backlog", Unit: "jobs that could start, " + most, Times: times,
		Series: []series{{"Ready", "ready", ready}},
	}
	age := chart{
		ID: "oldest", Title: "Oldest ready job", Unit: "time it could have started already, " + most, Times: times,
		Series: []series{{"Waiting for", "wait", oldest}}, IsTime: true,
	}
	throughput := chart{
		ID: "throughput", Title: "Throughput", Unit: "succeeded jobs, " + unit, Times: times, Adds: true,
		Series: []series{{"Succeeded", "succeeded", succeeded}},
	}
	failures := chart{
		ID: "failures", Title: "Failures", Unit: "failed attempts, " + unit, Times: times, Adds: true,
		Series: []series{{"For good", hatched, failed}, {"To be retried", "retried", retried}},
	}
	waits := chart{
		ID: "waits", Title: "Wait, p99", Unit: "of the jobs that ended, " + unit, Times: times,
		Series: []series{{"p99", "wait", waited}}, IsTime: true,
	}
	return []chart{backlog.rendered(step), age.rendered(step), throughput.rendered(step), failures.rendered(step), waits.rendered(step)}
}

// milliseconds formats a time of so many milliseconds.
func milliseconds(ms int) string { return seconds(float64(ms) / 1000) }

// format formats a value.
func (c chart) format(value int) string {
	if value == unknown {
		return "–"
	}
	if c.IsTime {
		return milliseconds(value)
	}
	return number(value)
}

// rendered returns the chart with its measures, bars, rows and description.
func (c chart) rendered(step time.Duration) chart {
	c.Width, c.Height = 520, 190
	c.Left, c.Right, c.Top, c.Bottom = 48, 512, 12, 160
	top := roundedTop(c.most())
	if c.IsTime {
		top = roundedTime(c.most())
	}
	y := func(value int) float64 {
		return float64(c.Bottom) - float64(c.Bottom-c.Top)*float64(value)/float64(top)
	}
	for _, value := range levels(top) {
		label := compact(value)
		if c.IsTime {
			label = milliseconds(value)
		}
		c.Lines = append(c.Lines, tick{At: units(y(value)), Text: label})
	}
	if len(c.Times) == 0 {
		return c
	}
	slot := float64(c.Right-c.Left) / float64(len(c.Times))
	c.Bars = c.bars(y, slot, step)
	c.Rows = c.rows()
	c.Labels = timeLabels(c.Times, step, float64(c.Left), slot)
	c.Desc = c.describe(step)
	return c
}

// bars renders the stacked bars. y returns the position of a value.
func (c chart) bars(y func(int) float64, slot float64, step time.Duration) template.HTML {
	var out strings.Builder
	for i, t := range c.Times {
		x, sum := float64(c.Left)+slot*float64(i), 0
		for _, s := range c.Series {
			value := s.Values[i]
			if value <= 0 {
				continue
			}
			sum += value
			fill := ""
			if s.Class == hatched {
				fill = ` fill="url(#` + c.ID + `-hatch)"`
			}
			out.WriteString(`<rect class="bar ` + s.Class + `" x="` + units(x+slot*0.1) + `" y="` + units(y(sum)) +
				`" width="` + units(slot*0.8) + `" height="` + units(math.Max(1, y(sum-value)-y(sum))) + `"` + fill +
				`><title>` + chartTime(t, step) + `: ` + c.format(value) + ` ` + s.Name + "</title></rect>\n")
		}
	}
	return template.HTML(out.String())
}

// rows renders the rows of the table.
func (c chart) rows() template.HTML {
	var out strings.Builder
	for i, t := range c.Times {
		out.WriteString(`<tr><th scope="row">` + stamp(t) + `</th>`)
		for _, s := range c.Series {
			out.WriteString(`<td class="n">` + c.format(s.Values[i]) + `</td>`)
		}
		out.WriteString("</tr>\n")
	}
	return template.HTML(out.String())
}

// most returns the largest sum of the series.
func (c chart) most() int {
	most := 0
	for i := range c.Times {
		most = max(most, c.sum(i))
	}
	return most
}

func (c chart) sum(i int) int {
	sum := 0
	for _, s := range c.Series {
		sum += max(0, s.Values[i])
	}
	return sum
}

// describe returns the description of the chart.
func (c chart) describe(step time.Duration) string {
	peak, sum, last := 0, 0, -1
	for i := range c.Times {
		sum += c.sum(i)
		if c.Series[0].Values[i] != unknown {
			last = i
		}
		if c.sum(i) > c.sum(peak) {
			peak = i
		}
	}
	span := fmt.Sprintf("From %s to %s UTC", chartTime(c.Times[0], step), chartTime(c.Times[len(c.Times)-1].Add(step), step))
	highest, at := c.format(c.sum(peak)), chartTime(c.Times[peak], step)
	switch {
	case last < 0:
		return span + ": not recorded."
	case sum == 0:
		return span + ": none."
	case c.Adds:
		return fmt.Sprintf("%s: %s in total; peak at %s: %s.", span, number(sum), at, highest)
	default:
		return fmt.Sprintf("%s: peak at %s: %s; last at %s: %s.", span, at, highest, chartTime(c.Times[last], step), c.format(c.sum(last)))
	}
}

// timeLabels returns about six labels, each centered below its bar.
func timeLabels(times []time.Time, step time.Duration, left, slot float64) []tick {
	every := (len(times) + 5) / 6
	var labels []tick
	for i := 0; i < len(times); i += every {
		x := left + slot*(float64(i)+0.5)
		labels = append(labels, tick{At: units(x), Text: labelTime(times[i], step, len(times)), Minor: i/every%2 == 1})
	}
	return labels
}

// labelTime formats a time below a chart, with the day if the chart spans more than a day.
func labelTime(t time.Time, step time.Duration, n int) string {
	if step*time.Duration(n) > 7*24*time.Hour {
		return t.UTC().Format("2 Jan")
	}
	if step*time.Duration(n) > 24*time.Hour {
		return t.UTC().Format("Mon 15:04")
	}
	return t.UTC().Format("15:04")
}

func chartTime(t time.Time, step time.Duration) string {
	if step > time.Hour {
		return t.UTC().Format("2 Jan 15:04")
	}
	if step == time.Hour {
		return t.UTC().Format("Mon 15:04")
	}
	return t.UTC().Format("15:04")
}

// roundedTop returns a round number that is not below the largest value.
func roundedTop(most int) int {
	for unit := 1; ; unit *= 10 {
		for _, factor := range []int{1, 2, 4, 6, 8} {
			if factor*unit >= most && (factor*unit > 1 || most <= 1) {
				return factor * unit
			}
		}
	}
}

// roundedTime is roundedTop for milliseconds. The result and its half are round in one unit, so that they
// fit beside the chart.
func roundedTime(most int) int {
	const s, m, h, d = 1000, 60_000, 3_600_000, 86_400_000
	if most <= s {
		return roundedTop(most)
	}
	for _, unit := range []struct{ is, next int }{{s, m}, {m, h}, {h, d}} {
		for _, factor := range []int{1, 2, 4, 10, 20, 40} {
			if top := factor * unit.is; top >= most && top < unit.next {
				return top
			}
		}
	}
	return roundedTop((most+d-1)/d) * d
}

// levels returns the values at which there are lines. They are whole numbers.
func levels(top int) []int {
	if top%2 != 0 {
		return []int{0, top}
	}
	return []int{0, top / 2, top}
}

// units formats a measure to a tenth.
func units(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

// compact formats a number with few digits.
func compact(n int) string {
	for _, unit := range []struct {
		name string
		is   int
	}{{"G", 1e9}, {"M", 1e6}, {"k", 1e3}} {
		if n >= unit.is {
			return strconv.FormatFloat(float64(n)/float64(unit.is), 'f', -1, 64) + unit.name
		}
	}
	return strconv.Itoa(n)
}
