package schedule_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/schedule"
)

// The tests in this file compare schedules with a naive enumeration, which looks at
// every minute of ten years, and shares nothing with the package.

var (
	expressionsPerZone = flag.Int("schedule.expressions", 10, "how many random cron expressions are tried in each zone")
	ticksInARow        = flag.Int("schedule.ticks", 10_000, "how many ticks of each are followed, from one at random")
)

// clock is what the clocks of a zone show in some years. They are put forward and
// back between quarters of an hour.
type clock struct {
	zone  *time.Location
	start time.Time
	// quarters are what they show at the beginning of each quarter.
	quarters []shown
	// jumps are the quarters at whose beginning they are put forward or back.
	jumps []int
}

const quarter = 15 // minutes

// shown is a minute that clocks show.
type shown struct {
	year                     int16
	month, day, hour, minute int8
	// number counts the minutes, as if no clock were ever put forward or back.
	number int64
}

func showing(t time.Time) shown {
	year, month, day := t.Date()
	hour, minute, _ := t.Clock()
	_, offset := t.Zone()
	return shown{int16(year), int8(month), int8(day), int8(hour), int8(minute), (t.Unix() + int64(offset)) / 60}
}

func numbered(number int64) shown { return showing(time.Unix(number*60, 0).UTC()) }

func newClock(t *testing.T, zone string, from, years int) *clock {
	t.Helper()
	location, err := time.LoadLocation(zone)
	require.NoError(t, err)
	c := &clock{zone: location, start: time.Date(from, 1, 1, 0, 0, 0, 0, time.UTC)}
	end := c.start.AddDate(years, 0, 0)
	for at := c.start; at.Before(end); at = at.Add(quarter * time.Minute) {
		now := showing(at.In(location))
		require.Zero(t, now.minute%quarter)
		if n := len(c.quarters); n > 0 && now.number != c.quarters[n-1].number+quarter {
			c.jumps = append(c.jumps, n)
		}
		c.quarters = append(c.quarters, now)
	}
	return c
}

// at is when a minute of a quarter begins.
func (c *clock) at(i, minute int) time.Time {
	return c.start.Add(time.Duration(i*quarter+minute) * time.Minute)
}

// field is one of an expression: what it is written as, and what it matches.
type field struct {
	text    string
	matches func(shown) bool
}

// expression is a cron expression.
type expression struct {
	minute, hour, day, month, weekday field
}

func (e expression) String() string {
	return strings.Join([]string{e.minute.text, e.hour.text, e.day.text, e.month.text, e.weekday.text}, " ")
}

func (e expression) matches(s shown) bool { return e.minute.matches(s) && e.matchesHour(s) }

func (e expression) matchesHour(s shown) bool {
	if !e.hour.matches(s) || !e.month.matches(s) {
		return false
	}
	if e.day.text == "*" || e.weekday.text == "*" {
		return e.day.matches(s) && e.weekday.matches(s)
	}
	return e.day.matches(s) || e.weekday.matches(s)
}

// isHourly is true where some minute of every hour of a day matches.
func (e expression) isHourly() bool {
	for hour := range int8(24) {
		if !e.hour.matches(shown{hour: hour}) {
			return false
		}
	}
	return true
}

// ticks enumerates the minutes of the clock that are ticks.
func (c *clock) ticks(e expression) (ticks []time.Time) {
	isHourly := e.isHourly()
	latest := c.quarters[0].number - 1 // of those that were shown
	for i, now := range c.quarters {
		if !isHourly && now.number > latest+1 && e.matchAny(latest+1, now.number) {
			ticks = append(ticks, c.at(i, 0)) // for what was left out
		}
		for minute := range quarter {
			shows := now
			shows.minute += int8(minute)
			shows.number += int64(minute)
			if minute == 0 && !e.matchesHour(shows) {
				break
			}
			isAgain := shows.number <= latest
			if e.minute.matches(shows) && (isHourly || !isAgain) && !slices.Contains(ticks[max(0, len(ticks)-1):], c.at(i, minute)) {
				ticks = append(ticks, c.at(i, minute))
			}
		}
		latest = max(latest, now.number+quarter-1)
	}
	return ticks
}

// matchAny tells whether a minute from the first number on, before the end, matches.
func (e expression) matchAny(first, end int64) bool {
	for number := first; number < end; number++ {
		if e.matches(numbered(number)) {
			return true
		}
	}
	return false
}

// numbers makes a field of random numbers, ranges and steps.
func numbers(r *rand.Rand, low, high int, names []string, of func(shown) int) field {
	if r.IntN(3) == 0 {
		return field{"*", func(shown) bool { return true }}
	}
	var set [64]bool
	name := func(n int) string {
		if names != nil && r.IntN(2) == 0 {
			return names[n-low]
		}
		return fmt.Sprint(n)
	}
	var items []string
	for range 1 + r.IntN(3) {
		from, to, step := low+r.IntN(high-low+1), low+r.IntN(high-low+1), 1+r.IntN(7)
		switch r.IntN(4) {
		case 0:
			items, to, step = append(items, name(from)), from, 1
		case 1:
			items, step = append(items, name(from)+"-"+name(to)), 1
		case 2:
			if high == 6 { // A week must not be left.
				from, to = min(from, to), max(from, to)
			}
			size := (to-from+high-low+1)%(high-low+1) + 1
			step = 1 + r.IntN(max(1, size-1)) // It must be shorter than the range.
			items = append(items, fmt.Sprintf("%d-%d/%d", from, to, step))
		case 3:
			from, to, step = low, high, 2+r.IntN(min(10, high-low-1))
			items = append(items, fmt.Sprintf("*/%d", step))
		}
		if to < from { // over the end
			to += high - low + 1
		}
		for n := from; n <= to; n += step {
			set[low+(n-low)%(high-low+1)] = true
		}
	}
	return field{strings.Join(items, ","), func(s shown) bool { return set[of(s)] }}
}

var (
	monthNames   = strings.Fields("jan FEB mar Apr may jun jul aug sep oct nov dec")
	weekdayNames = strings.Fields("SUN mon tue Wed thu fri sat")
)

func (s shown) weekday() int {
	return int(time.Date(int(s.year), time.Month(s.month), int(s.day), 0, 0, 0, 0, time.UTC).Weekday())
}

// lastDay is the number of days of the month.
func (s shown) lastDay() int {
	return time.Date(int(s.year), time.Month(s.month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// onDay is another day of the same month.
func (s shown) onDay(day int) shown {
	s.day = int8(day)
	return s
}

func (s shown) isWorkday() bool { return s.weekday() != 0 && s.weekday() != 6 }

// closestWorkday is the day of the month, from Monday to Friday, that is closest to
// one of its days.
func (s shown) closestWorkday(day int) int {
	for distance := 0; ; distance++ {
		for _, d := range []int{day - distance, day + distance} {
			if d >= 1 && d <= s.lastDay() && s.onDay(d).isWorkday() {
				return d
			}
		}
	}
}

// specialDay makes a field of days that differ from month to month.
func specialDay(r *rand.Rand) field {
	n := 1 + r.IntN(28)
	switch r.IntN(4) {
	case 0:
		return field{"L", func(s shown) bool { return int(s.day) == s.lastDay() }}
	case 1:
		n = min(n, 20)
		return field{fmt.Sprintf("L-%d", n), func(s shown) bool { return int(s.day) == s.lastDay()-n }}
	case 2:
		return field{"LW", func(s shown) bool {
			last := s.lastDay()
			for !s.onDay(last).isWorkday() {
				last--
			}
			return int(s.day) == last
		}}
	default:
		return field{fmt.Sprintf("%dW", n), func(s shown) bool { return int(s.day) == s.closestWorkday(n) }}
	}
}

// specialWeekday makes a field of weekdays that are counted within the month.
func specialWeekday(r *rand.Rand) field {
	weekday, n := r.IntN(7), 1+r.IntN(5)
	if r.IntN(3) == 0 {
		return field{weekdayNames[weekday] + "#L", func(s shown) bool {
			return s.weekday() == weekday && int(s.day)+7 > s.lastDay()
		}}
	}
	return field{fmt.Sprintf("%s#%d", weekdayNames[weekday], n), func(s shown) bool {
		return s.weekday() == weekday && (int(s.day)-1)/7+1 == n
	}}
}

func randomExpression(r *rand.Rand) expression {
	e := expression{
		minute:  numbers(r, 0, 59, nil, func(s shown) int { return int(s.minute) }),
		hour:    numbers(r, 0, 23, nil, func(s shown) int { return int(s.hour) }),
		day:     numbers(r, 1, 31, nil, func(s shown) int { return int(s.day) }),
		month:   numbers(r, 1, 12, monthNames, func(s shown) int { return int(s.month) }),
		weekday: numbers(r, 0, 6, weekdayNames, shown.weekday),
	}
	if r.IntN(4) == 0 {
		e.day = specialDay(r)
	}
	if r.IntN(4) == 0 {
		e.weekday = specialWeekday(r)
	}
	if r.IntN(2) == 0 { // where the clocks are put forward and back, mostly
		hour := r.IntN(4)
		e.hour = field{fmt.Sprint(hour), func(s shown) bool { return int(s.hour) == hour }}
	}
	return e
}

// zones have their clocks put forward and back: at two by an hour, at two by half an
// hour, and at midnight; the last went over the date line, and had no 30 December.
var zones = []struct {
	name string
	from int
}{
	{"America/New_York", 2016},
	{"Australia/Lord_Howe", 2016},
	{"America/Sao_Paulo", 2009},
	{"Pacific/Apia", 2008},
}

func TestCronTicksAreThoseOfANaiveEnumeration(t *testing.T) {
	expressions := *expressionsPerZone
	if testing.Short() {
		expressions = min(expressions, 3)
	}
	for _, zone := range zones {
		t.Run(zone.name, func(t *testing.T) {
			t.Parallel()
			c := newClock(t, zone.name, zone.from, 10)
			require.NotEmpty(t, c.jumps)
			seed := rand.Uint64()
			r := rand.New(rand.NewPCG(seed, 0))
			total := 0
			for range expressions {
				e := randomExpression(r)
				want := c.ticks(e)
				if len(want) == 0 {
					continue // It may be one that no day matches.
				}
				s, err := schedule.Cron(e.String(), zone.name)
				require.NoError(t, err, "%q, seed %d", e, seed)
				what := fmt.Sprintf("%q in %s, seed %d", e, zone.name, seed)
				total += requireInARow(t, r, want, s, what)
				requireFromAnywhere(t, r, c, want, s, what)
			}
			t.Logf("%d jumps of the clocks, %d ticks of %d expressions, seed %d", len(c.jumps), total, expressions, seed)
		})
	}
}

// requireInARow follows a schedule from tick to tick, and returns how many it saw.
func requireInARow(t *testing.T, r *rand.Rand, want []time.Time, s schedule.Schedule, what string) int {
	t.Helper()
	if len(want) > *ticksInARow {
		want = want[r.IntN(len(want)-*ticksInARow):][:*ticksInARow]
	}
	at := want[0].Add(-1)
	for _, tick := range want {
		next := s.Next(at)
		requireTick(t, tick, next, at, what)
		at = next
	}
	return len(want)
}

// requireFromAnywhere asks for the next tick at random times, most of them close to
// where the clocks are put forward or back.
func requireFromAnywhere(t *testing.T, r *rand.Rand, c *clock, want []time.Time, s schedule.Schedule, what string) {
	t.Helper()
	for range 300 {
		i := r.IntN(len(c.quarters))
		if r.IntN(4) > 0 {
			i = c.jumps[r.IntN(len(c.jumps))] + r.IntN(24) - 12
		}
		at := c.at(i, r.IntN(quarter))
		if r.IntN(2) == 0 {
			at = at.Add(time.Duration(r.Int64N(int64(time.Minute))))
		}
		n, found := slices.BinarySearchFunc(want, at, time.Time.Compare)
		if found {
			n++
		}
		if n < len(want) {
			requireTick(t, want[n], s.Next(at), at, what)
		}
	}
}

// requireTick is require.Equal for times of which there are many.
func requireTick(t *testing.T, want, got, after time.Time, what string) {
	t.Helper()
	if !got.Equal(want) {
		require.Failf(t, "another tick", "the next tick after %s is %s, and should be %s: %s", after, got, want.In(got.Location()), what)
	}
}

func TestIntervalTicksAreThoseOfANaiveEnumeration(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		every := time.Second + time.Duration(r.Int64N(int64(100*24*time.Hour/time.Millisecond)))*time.Millisecond
		start := time.Date(2016, 1, 1, 0, 0, 0, 0, time.UTC)
		anchor := start.Add(time.Duration(r.Int64N(2e9)-1e9) * time.Millisecond * 1000)
		s, err := schedule.Every(every, anchor)
		require.NoError(t, err)
		tick := anchor
		for !tick.After(start) {
			tick = tick.Add(every)
		}
		for tick.Add(-every).After(start) {
			tick = tick.Add(-every)
		}
		at := start
		for end := start.AddDate(10, 0, 0); tick.Before(end); tick = tick.Add(every) {
			at = s.Next(at)
			if !at.Equal(tick) {
				require.Equal(t, tick, at, "every %s from %s, seed %d", every, anchor, seed)
			}
		}
	}
}
