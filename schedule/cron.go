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

// cronSchedule is a schedule by the wall clock of a time zone.
type cronSchedule struct {
	expression string
	zone       *time.Location
	// spec finds the times that match the expression on a clock that is never put
	// forward or back. Next applies the changes of the zone.
	spec *cron.SpecSchedule
	// hourly is true if the expression has ticks in every hour of the day.
	hourly bool
}

// parser parses expressions of five fields. As in POSIX, if neither of the two day
// fields is "*", a day matches if either of them does.
var parser = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow |
	cron.Descriptor | cron.Extended | cron.DowOrDom).WithMaxSearchYears(searchYears)

// searchYears bounds the search for a tick. The longest gap between ticks is 40 years:
// a fifth Friday in February comes every 28 years, and after 40 if a year in between is
// not a leap year.
const searchYears = 50

// MaxExpressionBytes is the maximum length, in bytes, of a cron expression and of the
// name of a time zone.
const MaxExpressionBytes = 1024

// Cron returns a schedule of the times that match a cron expression on the wall clock of
// a time zone. The zone is a name of the IANA database; "" means UTC.
//
// The fields are minute, hour, day of the month, month, and day of the week, in which 0
// and 7 are Sunday. Each is "*", or a list, separated by commas, of numbers, ranges (1-5,
// or 22-2 across the end) and steps (*/15, 10-40/10). A step must be shorter than its
// range; a range of days across the end of the week can't have one. Months and days of
// the week also have three-letter names (jan, MON). If neither day field is "*", a day
// matches if either of them does. "L" is the last day of the month, "L-2" the second day
// before it, "15W" the weekday closest to the 15th, "LW" the last weekday; "FRI#2" is the
// second Friday of the month, and "FRI#L" the last one. @hourly, @daily (or @midnight),
// @weekly, @monthly and @yearly (or @annually) replace a whole expression.
//
// If the clocks are put forward and skip a matching time, the tick is at the moment of
// the change. If they are put back and show a matching time twice, the tick is only the
// first of them. Neither rule applies to an expression with ticks in every hour of the
// day, such as "*/10 * * * *": it follows the clocks, without extra or missing ticks.
//
// Cron returns an *InvalidError if the expression can't be parsed, is longer than
// MaxExpressionBytes or matches no day, and if the zone is unknown on this machine.
// "Local" is refused, since it is a different zone on each machine.
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
		return nil, refuse(ruleOf(expression), err)
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

// cronFields are the fields of a cron expression.
var cronFields = []string{
	"minute, from 0 to 59", "hour, from 0 to 23", "day of the month, from 1 to 31", "month, from 1 to 12 or jan to dec",
	"day of the week, from 0 to 7 or sun to sat",
}

// ruleOf returns the rule that an invalid cron expression breaks: that of its first invalid
// field, if each field is invalid or valid by itself.
func ruleOf(expression string) string {
	if fields := strings.Fields(expression); len(fields) == len(cronFields) {
		for i, field := range fields {
			alone := []string{"*", "*", "*", "*", "*"}
			alone[i] = field
			if _, err := parse(strings.Join(alone, " ")); err != nil {
				return "must have a valid " + cronFields[i]
			}
		}
	}
	return "must be five valid fields (minute, hour, day of the month, month, day of the week) or one of @hourly, @daily, …"
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

// parse parses an expression for a clock that is never put forward or back.
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

// checkSteps refuses steps in a range of days across the end of the week. The parser
// would count eight days, with Sunday as both 0 and 7.
func checkSteps(fields []string) error {
	for item := range strings.SplitSeq(strings.ToLower(fields[len(fields)-1]), ",") {
		days, _, hasStep := strings.Cut(item, "/")
		first, last, isRange := strings.Cut(days, "-")
		if hasStep && isRange && weekday(first) > weekday(last) {
			return fmt.Errorf("a range across the end of the week must not have a step: %q", item)
		}
	}
	return nil
}

// weekday returns the number of a day of the week from its number or name.
func weekday(text string) int {
	if i := slices.Index([]string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}, text); i >= 0 {
		return i
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0 // can't happen: the parser has refused it
	}
	return n
}

// Next implements Schedule.
func (c *cronSchedule) Next(after time.Time) time.Time {
	after = after.In(c.zone)
	if c.hourly {
		return c.nextHourly(after)
	}
	for wall := c.spec.Next(wallTime(after)); !wall.IsZero(); wall = c.spec.Next(wall) {
		tick := firstMoment(wall, c.zone)
		if tick.After(after) { // false if the clocks show this time again
			return tick
		}
	}
	return time.Time{}
}

// nextHourly returns the next moment at which the clocks show a matching time. A time that
// they show twice counts twice.
func (c *cronSchedule) nextHourly(after time.Time) time.Time {
	for wall := wallTime(after); ; {
		next := c.spec.Next(wall)
		if next.IsZero() {
			return next
		}
		_, end := after.ZoneBounds()
		tick := momentAt(next, after)
		if end.IsZero() || tick.Before(end) {
			return tick
		}
		after, wall = end, wallTime(end).Add(-1)
	}
}

// String returns the expression and the zone.
func (c *cronSchedule) String() string { return fmt.Sprintf("cron %s, %s", c.expression, c.zone) }
