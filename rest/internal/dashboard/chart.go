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

// chart is a chart of bars over time, made of series that are put on top of each other.
// Its measures are in the units of the picture.
type chart struct {
	ID    string
	Title string
	// Desc says in words what is to be seen.
	Desc   string
	Unit   string
	Series []series
	Times  []time.Time

	Width, Height            int
	Left, Right, Top, Bottom int
	Lines                    []tick
	Labels                   []tick
	// Bars and Rows are the bars, and the rows of the table that says the same. They
	// are most of a page with charts, and have numbers and times only: so they are
	// written here, which takes a tenth of the time that a template needs.
	Bars, Rows template.HTML
}

// series is what is counted, with a value for each time. Its class decides on color and
// pattern.
type series struct {
	Name, Class string
	Values      []int
}

// hatched is the class of bars with a pattern.
const hatched = "failed"

// tick is a line or a label at a place.
type tick struct {
	At   string
	Text string
	// Minor ones are left out where there is little room.
	Minor bool
}

// activityCharts are a chart of what succeeded, and one of what failed.
func activityCharts(activity management.Activity) []chart {
	n := len(activity.Points)
	times := make([]time.Time, n)
	succeeded, failed, retried := make([]int, n), make([]int, n), make([]int, n)
	for i, point := range activity.Points {
		times[i], succeeded[i], failed[i], retried[i] = point.Time, point.Succeeded, point.Failed, point.Retried
	}
	step := time.Duration(activity.Step * float64(time.Second))
	unit := "per " + span(step)
	switch step {
	case time.Minute:
		unit = "per minute"
	case time.Hour:
		unit = "per hour"
	}
	throughput := chart{
		ID: "throughput", Title: "Throughput", Unit: "jobs that succeeded, " + unit, Times: times,
		Series: []series{{"Succeeded", "succeeded", succeeded}},
	}
	failures := chart{
		ID: "failures", Title: "Failures", Unit: "attempts that failed, " + unit, Times: times,
		Series: []series{{"For good", hatched, failed}, {"To be retried", "retried", retried}},
	}
	return []chart{throughput.drawn(step), failures.drawn(step)}
}

// drawn is the chart with its measures.
func (c chart) drawn(step time.Duration) chart {
	c.Width, c.Height = 520, 190
	c.Left, c.Right, c.Top, c.Bottom = 48, 512, 12, 160
	top := niceTop(c.most())
	y := func(value int) float64 {
		return float64(c.Bottom) - float64(c.Bottom-c.Top)*float64(value)/float64(top)
	}
	for _, value := range levels(top) {
		c.Lines = append(c.Lines, tick{At: units(y(value)), Text: compact(value)})
	}
	if len(c.Times) == 0 {
		return c
	}
	slot := float64(c.Right-c.Left) / float64(len(c.Times))
	c.Bars = c.bars(y, slot, step)
	c.Rows = c.rows()
	c.Labels = timeLabels(c.Times, step, float64(c.Left), slot)
	c.Desc = c.words(step)
	return c
}

// bars are the bars, on top of each other, where y is the place of a value.
func (c chart) bars(y func(int) float64, slot float64, step time.Duration) template.HTML {
	var out strings.Builder
	for i, t := range c.Times {
		x, sum := float64(c.Left)+slot*float64(i), 0
		for _, s := range c.Series {
			value := s.Values[i]
			if value == 0 {
				continue
			}
			sum += value
			fill := ""
			if s.Class == hatched {
				fill = ` fill="url(#` + c.ID + `-hatch)"`
			}
			out.WriteString(`<rect class="bar ` + s.Class + `" x="` + units(x+slot*0.1) + `" y="` + units(y(sum)) +
				`" width="` + units(slot*0.8) + `" height="` + units(math.Max(1, y(sum-value)-y(sum))) + `"` + fill +
				`><title>` + chartTime(t, step) + `: ` + number(value) + ` ` + s.Name + "</title></rect>\n")
		}
	}
	return template.HTML(out.String())
}

// rows are the rows of the table.
func (c chart) rows() template.HTML {
	var out strings.Builder
	for i, t := range c.Times {
		out.WriteString(`<tr><th scope="row">` + stamp(t) + `</th>`)
		for _, s := range c.Series {
			out.WriteString(`<td class="n">` + number(s.Values[i]) + `</td>`)
		}
		out.WriteString("</tr>\n")
	}
	return template.HTML(out.String())
}

// most is the largest sum at any time.
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
		sum += s.Values[i]
	}
	return sum
}

// words say what the chart shows.
func (c chart) words(step time.Duration) string {
	peak, sum := 0, 0
	for i := range c.Times {
		sum += c.sum(i)
		if c.sum(i) > c.sum(peak) {
			peak = i
		}
	}
	span := fmt.Sprintf("From %s to %s UTC", chartTime(c.Times[0], step), chartTime(c.Times[len(c.Times)-1].Add(step), step))
	if sum == 0 {
		return span + ": none."
	}
	return fmt.Sprintf("%s: %s in all; the most at %s, %s.", span, number(sum), chartTime(c.Times[peak], step), number(c.sum(peak)))
}

// timeLabels are about six, each under the middle of its bar.
func timeLabels(times []time.Time, step time.Duration, left, slot float64) []tick {
	every := (len(times) + 5) / 6
	var labels []tick
	for i := 0; i < len(times); i += every {
		x := left + slot*(float64(i)+0.5)
		labels = append(labels, tick{At: units(x), Text: labelTime(times[i], step, len(times)), Minor: i/every%2 == 1})
	}
	return labels
}

// labelTime is a time under a chart. Where it spans more than a day, it tells the day.
func labelTime(t time.Time, step time.Duration, n int) string {
	if step*time.Duration(n) > 24*time.Hour {
		return t.UTC().Format("Mon 15:04")
	}
	return t.UTC().Format("15:04")
}

func chartTime(t time.Time, step time.Duration) string {
	if step >= time.Hour {
		return t.UTC().Format("Mon 15:04")
	}
	return t.UTC().Format("15:04")
}

// niceTop is a number that is easy to read off, and not below the largest value.
func niceTop(most int) int {
	for unit := 1; ; unit *= 10 {
		for _, factor := range []int{1, 2, 4, 6, 8} {
			if factor*unit >= most && (factor*unit > 1 || most <= 1) {
				return factor * unit
			}
		}
	}
}

// levels are the values at which there are lines: whole numbers only.
func levels(top int) []int {
	if top%2 != 0 {
		return []int{0, top}
	}
	return []int{0, top / 2, top}
}

// units is a measure with a tenth.
func units(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

// compact is a number with few digits.
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
