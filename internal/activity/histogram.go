package activity

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Longest is the longest time that is distinguished: longer times count as this.
const Longest = 24 * time.Hour

// significantDigits is the precision of the times, whose unit is the microsecond.
// Percentiles are accurate to four percent.
const significantDigits = 1

// Histogram counts times. The zero value is an empty histogram. A copy shares its counts.
// It is not safe for concurrent use.
type Histogram struct {
	counts  *hdrhistogram.PackedHistogram // nil if empty
	longest int64
}

// Record counts a time. A negative time counts as 0.
func (h *Histogram) Record(d time.Duration) {
	us := microseconds(d)
	h.longest = max(h.longest, us)
	h.add(us, 1) //nolint:errcheck // One more of a time in range is never too many.
}

// microseconds returns a time in microseconds, limited to the range from 0 to Longest.
func microseconds(d time.Duration) int64 {
	return min(max(d, 0), Longest).Microseconds()
}

// add counts a time the given number of times.
func (h *Histogram) add(us, times int64) error {
	if h.counts == nil {
		h.counts = hdrhistogram.NewPacked(1, Longest.Microseconds(), significantDigits)
	}
	return h.counts.RecordValues(us, times)
}

// Merge adds the counts of another histogram.
func (h *Histogram) Merge(other Histogram) {
	if other.counts == nil {
		return
	}
	if h.counts == nil {
		h.counts = other.counts.Clone()
	} else {
		h.counts.Merge(other.counts)
	}
	h.longest = max(h.longest, other.longest)
}

// Count returns the number of times that were counted.
func (h *Histogram) Count() int64 {
	if h.counts == nil {
		return 0
	}
	return h.counts.TotalCount()
}

// Max returns the longest of the times; 0 if there are none.
func (h *Histogram) Max() time.Duration { return time.Duration(h.longest) * time.Microsecond }

// Percentile returns the time that the given percentage of the times do not exceed, to
// within four percent; 0 if there are none.
func (h *Histogram) Percentile(percent float64) time.Duration {
	if h.Count() == 0 {
		return 0
	}
	upper := h.counts.ValueAtPercentile(percent)
	lower := upper // the smallest time in the same bucket
	for value := range h.counts.ForEachBucket {
		if value > upper {
			break
		}
		lower = value
	}
	return time.Duration(min((lower+upper)/2, h.longest)) * time.Microsecond
}

// clone returns a deep copy.
func (h *Histogram) clone() Histogram {
	var c Histogram
	c.Merge(*h)
	return c
}

// live is a histogram that is fast but uses much memory.
type live struct {
	counts  *hdrhistogram.Histogram
	longest int64
}

func newLive() live {
	return live{counts: hdrhistogram.New(1, Longest.Microseconds(), significantDigits)}
}

func (l *live) record(d time.Duration) {
	us := microseconds(d)
	l.longest = max(l.longest, us)
	l.counts.RecordValue(us) //nolint:errcheck // One more of a time in range is never too many.
}

// addTo adds the counts to a Histogram.
func (l *live) addTo(h *Histogram) {
	if l.counts.TotalCount() == 0 {
		return
	}
	if h.counts == nil {
		h.counts = hdrhistogram.NewPacked(1, Longest.Microseconds(), significantDigits)
	}
	h.counts.MergeFrom(l.counts)
	h.longest = max(h.longest, l.longest)
}

func (l *live) reset() {
	if l.counts.TotalCount() > 0 {
		l.counts.Reset()
	}
	l.longest = 0
}

// appendTo appends the stored form to b.
func (h *Histogram) appendTo(b []byte) []byte {
	b = appendInt(b, h.longest)
	if h.counts == nil {
		return appendInt(b, 0)
	}
	b = appendInt(b, int64(h.counts.Populated()))
	last := int64(0)
	for value, count := range h.counts.ForEachBucket {
		b = appendInt(appendInt(b, value-last), count)
		last = value
	}
	return b
}

// readHistogram reads a stored histogram.
func readHistogram(r *reader) (h Histogram) {
	h.longest = r.number()
	value := int64(0)
	for range r.length() {
		value += r.number()
		count := r.number()
		if r.err != nil {
			return h
		}
		if value < 0 || value > Longest.Microseconds() || count < 1 {
			r.fail("a time or its count is out of range")
			return h
		}
		if err := h.add(value, count); err != nil {
			r.fail(fmt.Sprintf("times: %v", err))
		}
	}
	if h.longest > Longest.Microseconds() {
		r.fail("longest time out of range")
	}
	return h
}
