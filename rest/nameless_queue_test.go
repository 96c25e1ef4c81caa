package rest_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A group opens no queue without a name, although its store may have jobs of one.
func TestAJobForTheQueueWithoutANameOfAGroupWasAnInternalError(t *testing.T) {
	w := newWorkers(t)
	status, answer := w.post("/v2/queues/_/jobs", `{"type":"scale","outside":true}`)
	assert.Equal(t, http.StatusNotFound, status, "%v", answer)
	assert.Equal(t, "urn:amboy:problem:unknown-queue", answer["type"])
	status, answer = w.post("/v2/queues/_/schedules", `{"name":"a","every":"1h","type":"scale","outside":true}`)
	assert.Equal(t, http.StatusConflict, status, "%v", answer)
	assert.Equal(t, "urn:amboy:problem:unsupported", answer["type"])
}
