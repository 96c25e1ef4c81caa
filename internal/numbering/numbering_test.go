package numbering_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/numbering"
	"github.com/mongodb/amboy/management"
)

// numbers returns the attempt numbers in the JSON of a value.
func numbers(t *testing.T, value any) (found []float64) {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	var decoded any
	require.NoError(t, json.Unmarshal(text, &decoded))
	var collect func(any)
	collect = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, one := range v {
				collect(one)
			}
		case map[string]any:
			for key, one := range v {
				if n, ok := one.(float64); ok && (key == "attempt" || key == "number") {
					found = append(found, n)
				}
				collect(one)
			}
		}
	}
	collect(decoded)
	return found
}

func TestAttemptsCountFromOneInJSON(t *testing.T) {
	second := management.JobSummary{Attempt: 1}
	job := management.Job{
		JobSummary: second,
		Errors:     []amboy.AttemptError{{Attempt: 1}},
		Attempts:   []management.Attempt{{Number: 1}},
	}
	processes := []management.Process{{Running: []management.JobSummary{second}}}

	assert.Equal(t, []float64{2, 2, 2}, numbers(t, numbering.ShowJob(job)))
	assert.Equal(t, []float64{2}, numbers(t, numbering.ShowJobs(processes[0].Running)))
	assert.Equal(t, []float64{2}, numbers(t, numbering.ShowProcesses(processes)))

	assert.Equal(t, job, numbering.ReadJob(numbering.ShowJob(job)))
	assert.Equal(t, processes, numbering.ReadProcesses(numbering.ShowProcesses(processes)))
	assert.Equal(t, []float64{1, 1, 1}, numbers(t, job), "the argument must not change")
	assert.Equal(t, []float64{1}, numbers(t, processes), "the argument must not change")
}
