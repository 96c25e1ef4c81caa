package promamboy_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/promamboy"
)

var (
	metricName = regexp.MustCompile(`amboy_[a-z_]+`)
	metricItem = regexp.MustCompile("(?m)^- `(amboy_[a-z_]+)`:")
	fqName     = regexp.MustCompile(`fqName: "([^"]+)"`)
)

// metricNames are the names of all metrics.
func metricNames(w *world) map[string]bool {
	w.Helper()
	collector := w.collector()
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		collector.Describe(descriptions)
	}()
	names := map[string]bool{}
	for d := range descriptions {
		names[fqName.FindStringSubmatch(d.String())[1]] = true
	}
	return names
}

const measurePage = "docs/guides/measure-queues.md"

func readDoc(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(name)))
	require.NoError(t, err)
	return string(content)
}

func TestDocumentationListsTheMetrics(t *testing.T) {
	inWorld(t, func(w *world) {
		names := metricNames(w)
		var listed []string
		for _, item := range metricItem.FindAllStringSubmatch(readDoc(w.T, measurePage), -1) {
			listed = append(listed, item[1])
		}
		assert.ElementsMatch(w, slices.Collect(maps.Keys(names)), listed)
		for _, file := range []string{measurePage, "deploy/alerts.yml", "deploy/grafana.json", "docs/guides/run-on-kubernetes.md", "deploy/kubernetes/scaledobject.yml"} {
			for _, name := range metricName.FindAllString(readDoc(w.T, file), -1) {
				assert.True(w, names[strings.TrimSuffix(name, "_bucket")], "%s names the metric %s", file, name)
			}
		}
	})
}

func TestDashboardFileIsJSON(t *testing.T) {
	assert.True(t, json.Valid([]byte(readDoc(t, "deploy/grafana.json"))))
}

// promtool comes with Prometheus.
func TestPromtoolAcceptsTheMetrics(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed")
	}
	var text string
	inWorld(t, func(w *world) {
		w.put("a", "")
		synctest.Wait()
		text = scrape(w, w.handler(promamboy.Options{Queues: 10}))
	})
	check := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	check.Stdin = strings.NewReader(text)
	output, err := check.CombinedOutput()
	require.NoError(t, err, "%s", output)
	assert.Empty(t, string(output))
}

func TestAlertsFireWhenTheyShould(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed")
	}
	for _, args := range [][]string{{"check", "rules", "../deploy/alerts.yml"}, {"test", "rules", "testdata/alerts_test.yml"}} {
		output, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput()
		assert.NoError(t, err, "%s", output)
	}
}
