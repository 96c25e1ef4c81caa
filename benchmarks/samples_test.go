package benchmarks

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// samples are measured durations.
type samples []time.Duration

// quantile returns the smallest sample such that at least a share of the samples, between 0
// and 1, do not exceed it.
func (s samples) quantile(share float64) time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	rank := int(math.Ceil(share * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}

// rate returns how many of count items are processed per second, by the median sample.
func (s samples) rate(count int) float64 {
	return float64(count) / s.quantile(0.5).Seconds()
}

// reportLatency reports the quantiles of one subject, under a prefix.
func (s samples) reportLatency(b *testing.B, prefix string) {
	b.ReportMetric(float64(s.quantile(0.5)), prefix+"p50-ns")
	b.ReportMetric(float64(s.quantile(0.99)), prefix+"p99-ns")
}

// reportLatencyRatio reports the ratios of the quantiles to those of the other samples, under a
// suffix.
func (s samples) reportLatencyRatio(b *testing.B, other samples, suffix string) {
	b.ReportMetric(float64(s.quantile(0.5))/float64(other.quantile(0.5)), "p50-x-"+suffix)
	b.ReportMetric(float64(s.quantile(0.99))/float64(other.quantile(0.99)), "p99-x-"+suffix)
}

func TestSamplesQuantile(t *testing.T) {
	hundred := make(samples, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100 - i)
	}
	for _, test := range []struct {
		samples samples
		share   float64
		want    time.Duration
	}{
		{samples{7}, 0, 7},
		{samples{7}, 1, 7},
		{samples{3, 1, 2}, 0.5, 2},
		{hundred, 0.5, 50},
		{hundred, 0.99, 99},
		{hundred, 1, 100},
	} {
		assert.Equal(t, test.want, test.samples.quantile(test.share), "%v of %v", test.share, test.samples)
	}
}
