package activity

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Longest is the longest time that is told apart: what takes longer counts as this.
const Longest = 24 * time.Hour

// significantDigits is that of the times, of which the first in a histogram is the
// microsecond. A percentile is within four percent then.
const significantDigits = 1

// Histogram counts times. The zero value is empty, and ready. A copy shares what it
// counts. It is not safe for concurrent use.
type Histogram struct {
	counts  *hdrhistogram.PackedHistogram // nil while it is empty
	longest int64
}

// Record counts a time. A negative one counts as 0.
func (h *Histogram) Record(d time.Duration) {
	us := microseconds(d)
	h.longest = max(h.longest, us)
	h.add(us, 1) //nolint:errcheck // One more of a time in range is never too many.
}

// microseconds are those that stand for a time.
func microseconds(d time.Duration) int64 {
	return min(max(d, 0), Longest).Microseconds()
}

// add counts a time several times.
func (h *Histogram) add(us, times int64) error {
	if h.counts == nil {
		h.counts = hdrhistogram.NewPacked(1, Longest.Microseconds(), significantDigits)
	}
	return h.counts.RecordValues(us, times)
}

// Merge counts what another histogram has.
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

// Count is the number of times.
func (h *Histogram) Count() int64 {
	if h.counts == nil {
		return 0
	}
	return h.counts.TotalCount()
}

// Max is the longest of the times; 0 where there are none.
func (h *Histogram) Max() time.Duration { return time.Duration(h.longest) * time.Microsecond }

// Percentile is the time that so many of a hundred do not exceed, to within four
// percent; 0 where there are none.
func (h *Histogram) Percentile(percent float64) time.Duration {
	if h.Count() == 0 {
		return 0
	}
	upper := h.counts.ValueAtPercentile(percent)
	lower := upper // of the times that are not told apart
	for value := range h.counts.ForEachBucket {
		if value > upper {
			break
		}
		lower = value
	}
	return time.Duration(min((lower+upper)/2, h.longest)) * time.Microsecond
}

// clone returns a copy that shares nothing.
func (h *Histogram) clone() Histogram {
	var c Histogram
	c.Merge(*h)
	return c
}

// live counts times fast, and needs much room for it.
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

// addTo counts the times elsewhere.
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

// appendTo appends the stored form.
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

// readHistogram reads the stored form.
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
			r.fail("a time, or how often there is one, is out of range")
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
