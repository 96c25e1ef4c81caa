package management

import (
	"fmt"
	"strings"
	"time"

	"github.com/mongodb/amboy/internal/printable"
)

func aheadText(by time.Duration) string {
	if by < 0 {
		return agoText(-by) + " behind"
	}
	return agoText(by) + " ahead of"
}

// agoText formats a duration in its two largest units.
func agoText(d time.Duration) string {
	units := []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}}
	for n, unit := range units {
		if d < unit.length && n < len(units)-1 {
			continue
		}
		text := fmt.Sprint(int64(d/unit.length), unit.name)
		if n+1 < len(units) && d%unit.length >= units[n+1].length {
			text += fmt.Sprint(int64(d%unit.length/units[n+1].length), units[n+1].name)
		}
		return text
	}
	return "" // not reached: the last unit is always used
}

func plural(n int, one, many string) string { return pluralCount(Count{Count: n}, one, many) }

func pluralCount(n Count, one, many string) string {
	what, least := many, ""
	if n.Count == 1 {
		what = one
	}
	if n.More {
		least = "at least "
	}
	return fmt.Sprintf("%s%d %s", least, n.Count, what)
}

// command returns a command line for a POSIX shell. Names come from users: they are quoted, and
// a command with a name that can't be printed as it is, or that would be taken for a flag, is
// left out.
func command(text string, args ...string) string {
	for n, arg := range args {
		switch {
		case n > 0 && arg == "--queue": // a flag between the names
		case !printable.Is(arg), strings.HasPrefix(arg, "-"):
			return ""
		case arg == "" || strings.Trim(arg, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@%+=,") != "":
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		text += " " + arg
	}
	return text
}
