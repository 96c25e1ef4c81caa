package rest_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The arguments of the job were replaced by null.
func TestACheckpointWithoutArgsRemovedThoseOfTheJob(t *testing.T) {
	w := newWorkers(t)
	w.create("images", `{"type":"scale","outside":true,"args":{"path":"cat.png"}}`)
	jobs, _ := w.lease("")
	require.Len(t, jobs, 1)
	status, answer := w.post("/v2/leases/acknowledge", fmt.Sprintf(`{"acknowledge":[{"token":%q,"checkpoint":{"again":{}}}]}`, jobs[0]["token"]))
	require.Equal(t, http.StatusOK, status)
	assert.Equal(t, []any{map[string]any{"done": true}}, answer["acknowledged"])
	jobs, _ = w.lease("")
	require.Len(t, jobs, 1)
	assert.Equal(t, map[string]any{"path": "cat.png"}, jobs[0]["args"])

	status, _ = w.post("/v2/leases/acknowledge", fmt.Sprintf(`{"acknowledge":[{"token":%q,"checkpoint":{"args":null,"again":{}}}]}`, jobs[0]["token"]))
	require.Equal(t, http.StatusOK, status)
	jobs, _ = w.lease("")
	require.Len(t, jobs, 1)
	assert.Nil(t, jobs[0]["args"])
}
