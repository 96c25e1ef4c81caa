package schedule

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/netresearch/go-cron"
)

// cronSchedule is a schedule by what the clocks of a time zone show.
type cronSchedule struct {
	expression string
	zone       *time.Location
	// spec finds the times that match the expression on a clock that is never put
	// forward or back. What the zone does to them is done here.
	spec *cron.SpecSchedule
	// hourly is true for an expression that has ticks in every hour of the day.
	hourly bool
}

// parser reads expressions of five fields. As by POSIX, a day matches by either of
// its two fields where neither is "*".
var parser = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow |
	cron.Descriptor | cron.Extended | cron.DowOrDom).WithMaxSearchYears(searchYears)

// searchYears bounds the search for a tick. No two of an expression are further
// apart: a fifth Friday in February comes every 28 years, and after 40 where a
// year between has no leap day.
const searchYears = 50

// MaxExpressionBytes is the length of the longest cron expression, and of the longest name
// of a time zone.
const MaxExpressionBytes = 1024

// Cron returns a schedule of the times that match a cron expression on the clocks
// of a time zone, which is named as in the IANA database; "" means UTC.
//
// The fields are minute, hour, day of the month, month, and day of the week, where
// 0 and 7 are Sunday. Each is "*", or a list of numbers, of ranges (1-5, and 22-2
// over the end) and of steps (*/15, 10-40/10), separated by commas. A step is shorter
// than its range; days of the week over the end of the week have none. Months and days
// of the week have names of three letters, too (jan, MON). Where neither day field
// is "*", a day matches by either of them. "L" is the last day of the month, "L-2"
// the second before it, "15W" the weekday closest to the 15th, "LW" the last
// weekday; "FRI#2" is the second Friday of the month, and "FRI#L" the last one.
// @hourly, @daily (or @midnight), @weekly, @monthly and @yearly (or @annually) stand
// for whole expressions.
//
// When the clocks are put forward, what they skip is made up for: a time that they
// do not show is a tick at the moment at which they are put forward. When they are
// put back, a time that they show twice is a tick the first time only. Neither holds
// for an expression that has ticks in every hour of the day, like "*/10 * * * *": it
// goes on by what the clocks show, without a leap and without a pause.
//
// Cron returns an *InvalidError for an expression that can't be read, that is longer than
// MaxExpressionBytes, or that no day matches, and for a zone that is not known here. "Local" is refused, since it is
// another zone on another machine.
func Cron(expression, zone string) (Schedule, error) {
	for _, text := range []struct{ field, value string }{{"cron expression", expression}, {"time zone", zone}} {
		if len(text.value) > MaxExpressionBytes {
			return nil, &InvalidError{Field: text.field, Value: text.value, Rule: fmt.Sprintf("must be at most %d bytes long", MaxExpressionBytes)}
		}
	}
	location, err := loadZone(zone)
	if err != nil {
		return nil, err
	}
	refuse := func(rule string, cause error) error {
		return &InvalidError{Field: "cron expression", Value: expression, Rule: rule, Err: cause}
	}
	spec, err := parse(expression)
	if err != nil {
		return nil, refuse("must have five fields (minute, hour, day of the month, month, day of the week) or be one of @hourly, @daily, …", err)
	}
	if spec.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, refuse("must match a day that exists", nil)
	}
	const everyHour = 1<<24 - 1
	return &cronSchedule{
		expression: expression,
		zone:       location,
		spec:       spec,
		hourly:     spec.Hour&everyHour == everyHour,
	}, nil
}

func loadZone(name string) (*time.Location, error) {
	const rule = `must be a name of the IANA time zone database, for instance "Europe/Berlin"`
	if name == "Local" {
		return nil, &InvalidError{Field: "time zone", Value: name, Rule: rule}
	}
	location, err := time.LoadLocation(name)
	if err != nil {
		return nil, &InvalidError{Field: "time zone", Value: name, Rule: rule, Err: err}
	}
	return location, nil
}

// parse reads an expression for a clock that is never put forward or back.
func parse(expression string) (*cron.SpecSchedule, error) {
	if strings.Contains(expression, "=") {
		return nil, errors.New("the time zone must not be part of the expression")
	}
	for field := range strings.FieldsSeq(expression) {
		if slices.Contains(strings.Split(field, ","), "") {
			return nil, fmt.Errorf("a list must not have an empty item: %q", field)
		}
	}
	parsed, err := parser.Parse(expression)
	if err != nil {
		return nil, err
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok { // "@every 1h"
		return nil, errors.New("an interval is not a cron expression: use Every")
	}
	err = checkSteps(strings.Fields(expression))
	if err != nil {
		return nil, err
	}
	spec.Location = time.UTC
	return spec, nil
}

// checkSteps refuses steps in a range of days that goes over the end of the week,
// where the parser takes the week for one of eight days, with Sunday as 0 and 7.
func checkSteps(fields []string) error {
	for item := range strings.SplitSeq(strings.ToLower(fields[len(fields)-1]), ",") {
		days, _, hasStep := strings.Cut(item, "/")
		first, last, isRange := strings.Cut(days, "-")
		if hasStep && isRange && weekday(first) > weekday(last) {
			return fmt.Errorf("a range over the end of the week must not have a step: %q", item)
		}
	}
	return nil
}

// weekday is the number of a day of the week, by its number or name.
func weekday(text string) int {
	if i := slices.Index([]string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}, text); i >= 0 {
		return i
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0 // The parser has refused it.
	}
	return n
}

// Next implements Schedule.
func (c *cronSchedule) Next(after time.Time) time.Time {
	after = after.In(c.zone)
	if c.hourly {
		return c.nextShown(after)
	}
	for shown := c.spec.Next(shownAt(after)); !shown.IsZero(); shown = c.spec.Next(shown) {
		tick := firstShown(shown, c.zone)
		if tick.After(after) { // it is not where the clocks show a time again
			return tick
		}
	}
	return time.Time{}
}

// nextShown returns the next tick of those that the clocks show, each time that they
// show one.
func (c *cronSchedule) nextShown(after time.Time) time.Time {
	for shown := shownAt(after); ; {
		next := c.spec.Next(shown)
		if next.IsZero() {
			return next
		}
		_, end := after.ZoneBounds()
		tick := shownWith(next, after)
		if end.IsZero() || tick.Before(end) {
			return tick
		}
		after, shown = end, shownAt(end).Add(-1)
	}
}

// String gives the expression and the zone.
func (c *cronSchedule) String() string { return fmt.Sprintf("cron %s, %s", c.expression, c.zone) }
