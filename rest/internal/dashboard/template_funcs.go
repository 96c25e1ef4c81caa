package dashboard

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/printable"
	"github.com/mongodb/amboy/management"
)

// functions are the functions that templates call.
var functions = template.FuncMap{
	"number":  number,
	"percent": percent,
	"rate":    rate,
	"seconds": seconds,
	"ago":     ago,
	"age":     func(now, t time.Time) string { return roughly(max(0, now.Sub(t))) },
	"stamp":   stamp,
	"when":    when,
	"input":   inputTime,
	"symbol":  symbol,
	"shorten": shorten,
	"pretty":  pretty,
	"inline":  inline,
	"ran":     ran,
	"between": between,
	"name":    shownName,
	"text":    text,
	"lines":   lines,
	"plain":   func(v any) string { return printable.Text(fmt.Sprint(v)) },
	"encode":  encodeQueue,
	"label":   actionLabel,
	"valueof": valueOf,
	"pick":    pick,
	"plus":    func(a, b int) int { return a + b },
	"minus":   func(a, b int) int { return a - b },
	"string":  func(v any) string { return fmt.Sprint(v) },
	// key returns the idempotency key of a form.
	"key": rand.Text,
	"ref": func(queue, id string) management.JobRef { return management.JobRef{Queue: queue, ID: id} },
	// onequeue reports whether entries of the audit list with such an action are about one queue, which may have no name.
	"onequeue": func(what string) bool { return what == "control" || strings.HasPrefix(what, "schedule.") },

	"filterfield": newFilterField,
	"rangefield":  newRangeField,
	"distances":   distances,
	"nodewidth":   func() int { return nodeWidth },
	"nodeheight":  func() int { return nodeHeight },
}

// text renders an untrusted text within a line. All its characters are visible, and it does
// not change the text direction around it.
func text(v any) template.HTML { return isolated(printable.Text(fmt.Sprint(v))) }

// lines is like text for several lines.
func lines(text string) template.HTML { return isolated(printable.Lines(text)) }

func isolated(clean string) template.HTML {
	if clean == "" {
		return ""
	}
	return template.HTML("<bdi>" + template.HTMLEscapeString(clean) + "</bdi>")
}

// number formats an integer with thousands separators.
func number(n int) string {
	digits := strconv.Itoa(n)
	start := len(digits) - 3
	least := 0
	if n < 0 {
		least = 1
	}
	for ; start > least; start -= 3 {
		digits = digits[:start] + "," + digits[start:]
	}
	return digits
}

// percent formats a fraction. Only exactly 0 and 1 are shown as 0% and 100%.
func percent(part float64) string {
	switch {
	case part > 0 && part < 0.001:
		return "<0.1%"
	case part < 1 && part > 0.999:
		return ">99.9%"
	default:
		return strconv.FormatFloat(math.Round(part*1000)/10, 'f', -1, 64) + "%"
	}
}

// rate formats a rate per second, or per minute if it is low.
func rate(perSecond float64) string {
	switch {
	case perSecond == 0:
		return "0/s"
	case perSecond >= 10:
		return number(int(math.Round(perSecond))) + "/s"
	case perSecond >= 1:
		return strconv.FormatFloat(math.Round(perSecond*10)/10, 'f', -1, 64) + "/s"
	case perSecond*60 >= 0.1:
		return strconv.FormatFloat(math.Round(perSecond*600)/10, 'f', -1, 64) + "/min"
	default:
		return "<0.1/min"
	}
}

// seconds formats a duration in seconds.
func seconds(s float64) string {
	switch {
	case s <= 0:
		return "0"
	case s < 0.001:
		return "<1 ms"
	case s < 1:
		return strconv.FormatFloat(math.Round(s*1000), 'f', -1, 64) + " ms"
	case s < 10:
		return strconv.FormatFloat(math.Round(s*10)/10, 'f', -1, 64) + " s"
	default:
		return span(time.Duration(s * float64(time.Second)))
	}
}

// span formats a duration in its two largest units.
func span(d time.Duration) string { return inUnits(d, math.MaxInt64) }

// roughly formats a duration approximately: with the second unit only if there are fewer
// than three of the first.
func roughly(d time.Duration) string { return inUnits(d, 3) }

// inUnits formats a duration in its largest unit, and in the next if there are fewer than
// few of the first.
func inUnits(d, few time.Duration) string {
	units := []struct {
		name string
		is   time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"min", time.Minute}, {"s", time.Second}}
	for i, unit := range units {
		if d < unit.is {
			continue
		}
		text := fmt.Sprintf("%d %s", d/unit.is, unit.name)
		if i+1 < len(units) && d/unit.is < few {
			next := units[i+1]
			if rest := d % unit.is / next.is; rest > 0 {
				text += fmt.Sprintf(" %d %s", rest, next.name)
			}
		}
		return text
	}
	return "0 s"
}

// ago formats the distance of a time from now.
func ago(now, t time.Time) string {
	d := now.Sub(t)
	switch {
	case t.IsZero():
		return ""
	case d >= time.Second:
		return roughly(d) + " ago"
	case d <= -time.Second:
		return "in " + roughly(-d)
	default:
		return "now"
	}
}

// stamp formats a time in full.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05") + " UTC"
}

// when returns an element that shows the distance of a time from now, with the full time as
// its title. It contains no untrusted text.
func when(now, t time.Time) template.HTML {
	if t.IsZero() {
		return `<span class="none">–</span>`
	}
	return template.HTML(`<time datetime="` + t.UTC().Format(time.RFC3339) + `" title="` + stamp(t) + `">` + ago(now, t) + `</time>`)
}

// inputTime formats a time as the value of a datetime-local input.
func inputTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05")
}

// symbol returns a symbol for a state, so that states don't depend on color alone.
func symbol(state amboy.JobState) string {
	switch state {
	case amboy.StateScheduled:
		return "◷"
	case amboy.StatePending:
		return "○"
	case amboy.StateBlocked:
		return "⊘"
	case amboy.StateParked:
		return "▣"
	case amboy.StateRunning:
		return "►"
	case amboy.StateRetrying:
		return "↻"
	case amboy.StateSucceeded:
		return "✓"
	case amboy.StateFailed:
		return "✗"
	case amboy.StateCanceled:
		return "⊗"
	case amboy.StateExpired:
		return "◌"
	default:
		return "?"
	}
}

// shorten cuts a text to at most most characters.
func shorten(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// maxShownJSON is the maximum number of bytes of arguments or of a result, indented, that a page
// shows.
const maxShownJSON = 64 << 10

// isShownWhole reports whether pretty returns all of a JSON value.
func isShownWhole(raw json.RawMessage) bool { return len(indented(raw)) <= maxShownJSON }

// pretty indents JSON for a page, and cuts it to maxShownJSON.
func pretty(raw json.RawMessage) string {
	text := indented(raw)
	if len(text) > maxShownJSON {
		return printable.JSON(strings.ToValidUTF8(text[:maxShownJSON], "")) + fmt.Sprintf("\n… (%s bytes in all)", number(len(raw)))
	}
	return printable.JSON(text)
}

// maxInline is the maximum number of characters of arguments in a line.
const maxInline = 120

// inline returns the beginning of JSON in one line.
func inline(raw json.RawMessage) string {
	var compact bytes.Buffer
	if json.Compact(&compact, raw) != nil {
		return shorten(string(raw), maxInline)
	}
	return shorten(printable.JSON(compact.String()), maxInline)
}

// ran formats how long a job has run.
func ran(now time.Time, job management.JobSummary) string {
	if run := job.Run(now); run > 0 {
		return seconds(run.Seconds())
	}
	return ""
}

// between formats the time from one event to the next; empty if one of them did not happen.
func between(from, to time.Time) string {
	if from.IsZero() || to.IsZero() {
		return ""
	}
	return seconds(to.Sub(from).Seconds())
}

// indented is like json.Indent, but stops after about maxShownJSON bytes, because deep
// nesting can turn a megabyte into gigabytes. It returns invalid JSON unchanged.
func indented(raw json.RawMessage) string {
	var compact bytes.Buffer
	if json.Compact(&compact, raw) != nil {
		return string(raw)
	}
	var out strings.Builder
	text := compact.Bytes()
	depth, inString := 0, false
	line := func(deeper int) {
		depth += deeper
		out.WriteByte('\n')
		for range depth {
			out.WriteString("  ")
		}
	}
	for i := 0; i < len(text) && out.Len() <= maxShownJSON; i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
			out.Write(text[i-1 : i+1])
		case c == '"':
			inString = !inString
			out.WriteByte(c)
		case inString:
			out.WriteByte(c)
		case (c == '{' || c == '[') && text[i+1] == c+2: // empty
			i++
			out.Write(text[i-1 : i+1])
		case c == '{' || c == '[':
			out.WriteByte(c)
			line(1)
		case c == '}' || c == ']':
			line(-1)
			out.WriteByte(c)
		case c == ',':
			out.WriteByte(c)
			line(0)
		case c == ':':
			out.WriteString(": ")
		default:
			out.WriteByte(c)
		}
	}
	return out.String()
}

// shownName returns the name of a queue, or a placeholder if it is empty.
func shownName(name string) string {
	if name == "" {
		return "(no name)"
	}
	return name
}

// actionLabel returns the label of the button for an action.
func actionLabel(kind management.ActionKind) string { return actionTexts[kind].label }

// filterField is a form field that may have several values, with an input for each. List
// is the ID of the list of suggested values.
type filterField struct {
	Name, Label string
	Values      []string
	List        string
}

func newFilterField(name, label string, values []string, list string) filterField {
	shown := slices.Clone(values)
	if name == "queue" {
		for i, queue := range shown {
			shown[i] = encodeQueue(queue)
		}
	}
	if len(shown) == 0 {
		shown = []string{""}
	}
	return filterField{name, label, shown, list}
}

// rangeField is a pair of form fields for a range of times.
type rangeField struct {
	Name, Label string
	Range       management.TimeRange
}

func newRangeField(name, label string, r management.TimeRange) rangeField {
	return rangeField{name, label, r}
}

// distances returns the distances of a graph that a user can choose.
func distances() []int {
	all := make([]int, management.MaxGraphDistance)
	for i := range all {
		all[i] = i + 1
	}
	return all
}

// actionText contains the texts for an action.
type actionText struct {
	label string // on a button
	done  string // what happened to the jobs, after "was" or "were"
}

var actionTexts = map[management.ActionKind]actionText{
	management.Retry:      {"Retry now", "scheduled to run again"},
	management.Cancel:     {"Cancel", "canceled or asked to end"},
	management.Park:       {"Park", "parked"},
	management.Release:    {"Release", "released"},
	management.Reschedule: {"Reschedule", "rescheduled"},
	management.Prioritize: {"Change priority", "given the new priority"},
	management.Complete:   {"Mark complete", "marked complete"},
	management.Abandon:    {"Abandon the run", "taken from their workers"},
	management.Delete:     {"Delete", "deleted"},
}
