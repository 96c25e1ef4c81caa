package postgres

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// span is the times between two, both of which are part of it.
type span struct{ from, to int64 }

// spans are ranges of times that do not overlap, in order.
type spans []span

// maxSpans is the maximum number of spans. If there are more, the closest ones are joined.
const maxSpans = 16

// spansOf returns the span of a time; none if the time is not set.
func spansOf(at table.Instant) spans {
	if !at.Valid {
		return nil
	}
	return spans{{at.Int64, at.Int64}}
}

// with returns spans that contain all times of both.
func (s spans) with(more ...span) spans {
	if len(more) == 0 {
		return s
	}
	all := slices.Concat(s, more)
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	all = all.join(0)
	if len(all) <= maxSpans {
		return all
	}
	var gaps []int64
	for i, next := range all[1:] {
		gaps = append(gaps, next.from-all[i].to)
	}
	slices.Sort(gaps)
	return all.join(gaps[len(gaps)-maxSpans])
}

// join makes spans that are no further apart than a gap one. It changes s.
func (s spans) join(gap int64) spans {
	joined := s[:1]
	for _, next := range s[1:] {
		last := &joined[len(joined)-1]
		if next.from <= last.to || next.from-last.to <= gap {
			last.to = max(last.to, next.to)
		} else {
			joined = append(joined, next)
		}
	}
	return joined
}

// since returns the times that are not before a given one.
func (s spans) since(at int64) spans {
	i := slices.IndexFunc(s, func(s span) bool { return s.to >= at })
	if i < 0 {
		return nil
	}
	later := slices.Clone(s[i:])
	later[0].from = max(later[0].from, at)
	return later
}

// format returns the text of spans in a notification.
func (s spans) format() string {
	var all []string
	for _, one := range s {
		all = append(all, strconv.FormatInt(one.from, 10)+":"+strconv.FormatInt(one.to, 10))
	}
	return strings.Join(all, ",")
}

// parseSpans reads what format returns. A process with an earlier version names only the first of some times.
func parseSpans(text string) (s spans, err error) {
	if text == "" {
		return nil, nil
	}
	for field := range strings.SplitSeq(text, ",") {
		first, last, named := strings.Cut(field, ":")
		one := span{to: never}
		one.from, err = strconv.ParseInt(first, 10, 64)
		if err == nil && named {
			one.to, err = strconv.ParseInt(last, 10, 64)
		}
		if err != nil {
			return nil, err
		}
		s = append(s, one)
	}
	return spans(nil).with(s...), nil
}
