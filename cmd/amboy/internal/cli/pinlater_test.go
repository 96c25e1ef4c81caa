package cli_test

import (
	"encoding/json"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/cmd/amboy/internal/cli"
	"github.com/mongodb/amboy/internal/outsidetest"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/pinlater"
	"github.com/mongodb/amboy/queue"
)

// servePinLater serves PinLater's protocol, and returns the port.
func servePinLater(t *testing.T) int {
	t.Helper()
	g := outsidetest.StartGroup(t, queue.DriverQueueOptions{Driver: outsidetest.Memory(t), CloseDriver: true}, outside.Options{})
	s, err := pinlater.New(g.Queues, g.Dispatcher, pinlater.Options{})
	require.NoError(t, err)
	listener := outsidetest.Listen(t)
	outsidetest.Serve(t, s, listener)
	return listener.Addr().(*net.TCPAddr).Port //nolint:errcheck,forcetypeassert // It is TCP.
}

func noVariables(env *cli.Env) { env.Getenv = func(string) string { return "" } }

func TestLine30AllModesOfTheClientToolWork(t *testing.T) {
	port := strconv.Itoa(servePinLater(t))
	call := func(args ...string) string {
		t.Helper()
		r := runIn(t.Context(), nil, noVariables, append([]string{"pinlater", "--port", port}, args...)...)
		require.Zero(t, r.code, r.errOut)
		return r.out
	}
	assert.Equal(t, "Made queue mail.\n", call("create", "--queue", "mail"))
	assert.Equal(t, "mail\n", call("get_queue_names"))
	assert.Equal(t, "No jobs are available.\n", call("check_dequeue", "--queue", "mail"))
	assert.Contains(t, call("enqueue", "--queue", "mail", "--num_queries", "6", "--batch_size", "5", "--concurrency", "2", "--priority", "2"), "6 calls with 30 jobs in ")
	assert.Equal(t, "Jobs are available.\n", call("check-dequeue", "--queue", "mail"))
	assert.Equal(t, "30\n", call("get_job_count", "--queue", "mail"))
	assert.Equal(t, "0\n", call("get_job_count", "--queue", "mail", "--priority", "1"))
	assert.Equal(t, "0\n", call("get_job_count", "--queue", "mail", "--count_future_jobs"))
	assert.Contains(t, call("dequeue", "--queue", "mail", "--batch_size", "10"), "1 calls with 10 jobs in ")
	assert.Equal(t, "10\n", call("get_job_count", "--queue", "mail", "--job_state", "2"))
	for range 2 {
		assert.Contains(t, call("dequeue", "--queue", "mail", "--batch_size", "20", "--dequeue_success_percent", "0"), "1 calls with 20 jobs in ")
	}
	assert.Equal(t, "20\n", call("get_job_count", "--queue", "mail", "--job_state", "3"))
	shown := call("lookup", "--job_descriptor", "mail:s1:p2:1")
	assert.Contains(t, shown, "task_")
	assert.Contains(t, shown, ":pinlaterclienttool:")
	var document struct {
		Body []byte `json:"body"`
	}
	require.NoError(t, json.Unmarshal([]byte(call("lookup", "--job_descriptor", "mail:s1:p2:1", "-o", "json")), &document))
	assert.True(t, strings.HasPrefix(string(document.Body), "task_"))
}

func TestPinLaterModesRefuseBadInput(t *testing.T) {
	port := strconv.Itoa(servePinLater(t))
	for says, c := range map[string]struct {
		code int
		args []string
	}{
		"a subcommand of pinlater is missing": {2, nil},
		"which queue? Set --queue":            {2, []string{"create"}},
		"which job? Set --job_descriptor":     {2, []string{"lookup"}},
		"--port must be":                      {2, []string{"get_queue_names", "--port", "0"}},
		"--concurrency must be":               {2, []string{"enqueue", "--queue", "q", "--concurrency", "0"}},
		"--batch_size must be":                {2, []string{"enqueue", "--queue", "q", "--batch_size", "0"}},
		"--num_queries must be":               {2, []string{"enqueue", "--queue", "q", "--num_queries", "-2"}},
		"--dequeue_success_percent must be":   {2, []string{"dequeue", "--queue", "q", "--dequeue_success_percent", "101"}},
		"--priority must be":                  {2, []string{"enqueue", "--queue", "q", "--priority", "0"}},
		"--job_state must be":                 {2, []string{"get_job_count", "--queue", "q", "--job_state", "4"}},
		"Queue not found: none":               {1, []string{"enqueue", "--queue", "none"}},
		"Invalid queue name":                  {1, []string{"create", "--queue", "a-b"}},
		`job "mail:s1:p1:1" does not exist`:   {3, []string{"lookup", "--job_descriptor", "mail:s1:p1:1"}},
		"connecting to the PinLater server":   {1, []string{"get_queue_names", "--port", "1"}},
	} {
		r := runIn(t.Context(), nil, noVariables, append([]string{"pinlater", "--port", port}, c.args...)...)
		assert.Equal(t, c.code, r.code, says)
		assert.Contains(t, r.errOut, says)
	}
}
