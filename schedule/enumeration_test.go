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

// The tests in this file compare schedules with a naive enumeration, which checks every
// minute of ten years and shares no code with the package.

var (
	expressionsPerZone = flag.Int("schedule.expressions", 5, "how many random cron expressions are tried in each zone")
	ticksInARow        = flag.Int("schedule.ticks", 10_000, "how many ticks of each are followed, from one at random")
)

// clock holds the wall times of a zone over some years. Its changes are at full quarters
// of an hour.
type clock struct {
	zone  *time.Location
	start time.Time
	// quarters are the wall times at the start of each quarter.
	quarters []wallMinute
	// jumps are the quarters at whose start the clocks change.
	jumps []int
}

const quarter = 15 // minutes

// wallMinute is a minute of wall time.
type wallMinute struct {
	year                     int16
	month, day, hour, minute int8
	// number counts the minutes as if the clocks never changed.
	number int64
}

func wallMinuteOf(t time.Time) wallMinute {
	year, month, day := t.Date()
	hour, minute, _ := t.Clock()
	_, offset := t.Zone()
	return wallMinute{int16(year), int8(month), int8(day), int8(hour), int8(minute), (t.Unix() + int64(offset)) / 60}
}

func numbered(number int64) wallMinute { return wallMinuteOf(time.Unix(number*60, 0).UTC()) }

func newClock(t *testing.T, zone string, from, years int) *clock {
	t.Helper()
	location, err := time.LoadLocation(zone)
	require.NoError(t, err)
	c := &clock{zone: location, start: time.Date(from, 1, 1, 0, 0, 0, 0, time.UTC)}
	end := c.start.AddDate(years, 0, 0)
	for at := c.start; at.Before(end); at = at.Add(quarter * time.Minute) {
		now := wallMinuteOf(at.In(location))
		if now.minute%quarter != 0 { // faster than require.Zero
			require.Failf(t, "a quarter must start", "not at minute %d", now.minute)
		}
		if n := len(c.quarters); n > 0 && now.number != c.quarters[n-1].number+quarter {
			c.jumps = append(c.jumps, n)
		}
		c.quarters = append(c.quarters, now)
	}
	return c
}

// at returns the moment at which a minute of a quarter starts.
func (c *clock) at(i, minute int) time.Time {
	return c.start.Add(time.Duration(i*quarter+minute) * time.Minute)
}

// field is a field of an expression: its text, and what it matches.
type field struct {
	text    string
	matches func(wallMinute) bool
}

// expression is a cron expression.
type expression struct {
	minute, hour, day, month, weekday field
}

func (e expression) String() string {
	return strings.Join([]string{e.minute.text, e.hour.text, e.day.text, e.month.text, e.weekday.text}, " ")
}

func (e expression) matches(s wallMinute) bool { return e.minute.matches(s) && e.matchesHour(s) }

func (e expression) matchesHour(s wallMinute) bool {
	if !e.hour.matches(s) || !e.month.matches(s) {
		return false
	}
	if e.day.text == "*" || e.weekday.text == "*" {
		return e.day.matches(s) && e.weekday.matches(s)
	}
	return e.day.matches(s) || e.weekday.matches(s)
}

// isHourly reports whether every hour of a day has a matching minute.
func (e expression) isHourly() bool {
	for hour := range int8(24) {
		if !e.hour.matches(wallMinute{hour: hour}) {
			return false
		}
	}
	return true
}

// ticks enumerates the ticks of an expression on the clock.
func (c *clock) ticks(e expression) (ticks []time.Time) {
	isHourly := e.isHourly()
	latest := c.quarters[0].number - 1 // the latest minute shown so far
	for i, now := range c.quarters {
		if !isHourly && now.number > latest+1 && e.matchAny(latest+1, now.number) {
			ticks = append(ticks, c.at(i, 0)) // replaces the skipped minutes
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

// matchAny reports whether a minute in the half-open range [from, end) matches.
func (e expression) matchAny(first, end int64) bool {
	for number := first; number < end; number++ {
		if e.matches(numbered(number)) {
			return true
		}
	}
	return false
}

// numbers makes a field of random numbers, ranges and steps.
func numbers(r *rand.Rand, low, high int, names []string, of func(wallMinute) int) field {
	if r.IntN(3) == 0 {
		return field{"*", func(wallMinute) bool { return true }}
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
			if high == 6 { // a step must not cross the end of the week
				from, to = min(from, to), max(from, to)
			}
			size := (to-from+high-low+1)%(high-low+1) + 1
			step = 1 + r.IntN(max(1, size-1)) // a step must be shorter than the range
			items = append(items, fmt.Sprintf("%d-%d/%d", from, to, step))
		case 3:
			from, to, step = low, high, 2+r.IntN(min(10, high-low-1))
			items = append(items, fmt.Sprintf("*/%d", step))
		}
		if to < from { // across the end
			to += high - low + 1
		}
		for n := from; n <= to; n += step {
			set[low+(n-low)%(high-low+1)] = true
		}
	}
	return field{strings.Join(items, ","), func(s wallMinute) bool { return set[of(s)] }}
}

var (
	monthNames   = strings.Fields("jan FEB mar Apr may jun jul aug sep oct nov dec")
	weekdayNames = strings.Fields("SUN mon tue Wed thu fri sat")
)

func (s wallMinute) weekday() int {
	return int(time.Date(int(s.year), time.Month(s.month), int(s.day), 0, 0, 0, 0, time.UTC).Weekday())
}

// lastDay returns the number of days of the month.
func (s wallMinute) lastDay() int {
	return time.Date(int(s.year), time.Month(s.month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// onDay returns another day of the same month.
func (s wallMinute) onDay(day int) wallMinute {
	s.day = int8(day)
	return s
}

func (s wallMinute) isWorkday() bool { return s.weekday() != 0 && s.weekday() != 6 }

// closestWorkday returns the day of the month, from Monday to Friday, that is closest to a
// day of it.
func (s wallMinute) closestWorkday(day int) int {
	for distance := 0; ; distance++ {
		for _, d := range []int{day - distance, day + distance} {
			if d >= 1 && d <= s.lastDay() && s.onDay(d).isWorkday() {
				return d
			}
		}
	}
}

// specialDay makes a random field of days that differ from month to month.
func specialDay(r *rand.Rand) field {
	n := 1 + r.IntN(28)
	switch r.IntN(4) {
	case 0:
		return field{"L", func(s wallMinute) bool { return int(s.day) == s.lastDay() }}
	case 1:
		n = min(n, 20)
		return field{fmt.Sprintf("L-%d", n), func(s wallMinute) bool { return int(s.day) == s.lastDay()-n }}
	case 2:
		return field{"LW", func(s wallMinute) bool {
			last := s.lastDay()
			for !s.onDay(last).isWorkday() {
				last--
			}
			return int(s.day) == last
		}}
	default:
		return field{fmt.Sprintf("%dW", n), func(s wallMinute) bool { return int(s.day) == s.closestWorkday(n) }}
	}
}

// specialWeekday makes a random field of weekdays counted within the month.
func specialWeekday(r *rand.Rand) field {
	weekday, n := r.IntN(7), 1+r.IntN(5)
	if r.IntN(3) == 0 {
		return field{weekdayNames[weekday] + "#L", func(s wallMinute) bool {
			return s.weekday() == weekday && int(s.day)+7 > s.lastDay()
		}}
	}
	return field{fmt.Sprintf("%s#%d", weekdayNames[weekday], n), func(s wallMinute) bool {
		return s.weekday() == weekday && (int(s.day)-1)/7+1 == n
	}}
}

func randomExpression(r *rand.Rand) expression {
	e := expression{
		minute:  numbers(r, 0, 59, nil, func(s wallMinute) int { return int(s.minute) }),
		hour:    numbers(r, 0, 23, nil, func(s wallMinute) int { return int(s.hour) }),
		day:     numbers(r, 1, 31, nil, func(s wallMinute) int { return int(s.day) }),
		month:   numbers(r, 1, 12, monthNames, func(s wallMinute) int { return int(s.month) }),
		weekday: numbers(r, 0, 6, weekdayNames, wallMinute.weekday),
	}
	if r.IntN(4) == 0 {
		e.day = specialDay(r)
	}
	if r.IntN(4) == 0 {
		e.weekday = specialWeekday(r)
	}
	if r.IntN(2) == 0 { // the hours in which clocks usually change
		hour := r.IntN(4)
		e.hour = field{fmt.Sprint(hour), func(s wallMinute) bool { return int(s.hour) == hour }}
	}
	return e
}

// zones have clocks that change by an hour at two o'clock, by half an hour at two, and at
// midnight. The last zone crossed the date line and had no 30 December.
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
					continue // it may match no day
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

// requireInARow follows a schedule from tick to tick, and returns the number of ticks.
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

// requireFromAnywhere calls Next for random times, most of them close to changes of the
// clocks.
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

// requireTick is a faster require.Equal for times.
func requireTick(t *testing.T, want, got, after time.Time, what string) {
	if !got.Equal(want) {
		t.Helper()
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
