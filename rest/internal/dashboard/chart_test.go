package dashboard_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The labels were those of round numbers of milliseconds, such as "33 min 20 s", and did not fit beside the chart.
func TestLabelsOfTimesBesideAChartWereCutOff(t *testing.T) {
	for oldest, want := range map[float64]string{
		0: "0 1 ms", 0.3: "0 200 ms 400 ms", 1: "0 500 ms 1 s", 1.1: "0 1 s 2 s", 41: "0 30 s 1 min", 1200: "0 10 min 20 min", 2401: "0 30 min 1 h",
		20 * 3600: "0 10 h 20 h", 21 * 3600: "0 12 h 1 d", 9 * 86400: "0 5 d 10 d",
	} {
		inspector := newFake()
		inspector.oldestReady = oldest
		var labels []string
		for _, text := range parse(t, newSite(inspector, "").get("/").Body.String()).all("text", "class", "y") {
			if chart := text.within("figure"); chart != nil && chart.attrs["id"] == "chart-oldest" {
				labels = append(labels, text.words())
			}
		}
		assert.Equal(t, want, strings.Join(labels, " "), "%g s", oldest)
	}
}
