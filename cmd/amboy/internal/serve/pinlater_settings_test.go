//go:build unix

package serve_test

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/cmd/amboy/internal/serve"
	"github.com/mongodb/amboy/pinlater"
	"github.com/mongodb/amboy/pinlater/wire"
)

// requireCode requires an exception of PinLater's interface with a code.
func (r *running) requireCode(err error, code wire.ErrorCode) {
	r.Helper()
	var e *wire.PinLaterException
	require.ErrorAs(r, err, &e)
	require.Equal(r, code, e.ErrorCode, e.Message)
}

// The server had no setting for the password of deleteQueue, and refused every call.
func TestNoPasswordDeletedAQueueOfPinLater(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "amboy.json")
	write(t, file, fmt.Sprintf(`{"store": "memory", "token_file": %q, "listen": "127.0.0.1:0", "pinlater": "127.0.0.1:0", "pinlater_admin_password_hash": %q}`,
		filepath.Join(dir, "token"), pinlater.PasswordHash("secret")))
	r := startedWith(t, serve.Config{File: file})
	client, by := r.pinlaterClient(), wire.NewRequestContext()
	require.NoError(t, client.CreateQueue(t.Context(), by, "images"))
	r.requireCode(client.DeleteQueue(t.Context(), by, "images", "wrong"), wire.ErrorCode_PASSWORD_INVALID)
	require.NoError(t, client.DeleteQueue(t.Context(), by, "images", "secret"))
	names, err := client.GetQueueNames(t.Context(), by)
	require.NoError(t, err)
	require.Empty(t, names)
}

// The server could not be told that others share its rate limits, so each started as many jobs as all together may.
func TestServersOfPinLaterDidNotShareTheirRates(t *testing.T) {
	dir := t.TempDir()
	file, queues, servers := filepath.Join(dir, "amboy.json"), filepath.Join(dir, "queues.json"), filepath.Join(dir, "servers")
	const shares = 10_000
	var list strings.Builder
	for i := range shares {
		fmt.Fprintf(&list, "host%d:9010\n", i)
	}
	write(t, servers, list.String())
	const perSecond = 100 * shares // of all servers
	write(t, queues, fmt.Sprintf(`{"queues": [{"name": "images", "queueConfig": {"maxJobsPerSecond": %d}}]}`, perSecond))
	write(t, file, fmt.Sprintf(`{"store": "memory", "token_file": %q, "listen": "127.0.0.1:0", "pinlater": "127.0.0.1:0", "pinlater_queues": %q, "pinlater_servers": %q}`,
		filepath.Join(dir, "token"), queues, servers))
	r := startedWith(t, serve.Config{File: file})
	client, by := r.pinlaterClient(), wire.NewRequestContext()
	require.NoError(t, client.CreateQueue(t.Context(), by, "images"))
	request := wire.NewPinLaterDequeueRequest()
	request.QueueName, request.Limit = "images", 10_000 // what all servers start in 10 ms, and this one in 100 s
	_, err := client.DequeueJobs(t.Context(), by, request)
	require.NoError(t, err)
	for range 500 { // they take longer than 10 ms
		_, err = client.DequeueJobs(t.Context(), by, request)
		r.requireCode(err, wire.ErrorCode_DEQUEUE_RATE_LIMITED)
	}
}

func TestSettingsOfPinLaterAreThoseOfTheFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "amboy.json")
	settings := fmt.Sprintf(`{"store": "memory", "token_file": %q, "listen": "127.0.0.1:0", "pinlater": "127.0.0.1:0"`, filepath.Join(dir, "token"))
	write(t, file, settings+`, "pinlater_priority_levels": 1, "pinlater_claim_timeout": "1h"}`)
	r := startedWith(t, serve.Config{File: file})
	client, by := r.pinlaterClient(), wire.NewRequestContext()
	require.NoError(t, client.CreateQueue(t.Context(), by, "images"))
	job := wire.NewPinLaterJob()
	job.Priority = 2
	_, err := client.EnqueueJobs(t.Context(), by, &wire.PinLaterEnqueueRequest{QueueName: "images", Jobs: []*wire.PinLaterJob{job}})
	r.requireCode(err, wire.ErrorCode_PRIORITY_NOT_SUPPORTED)
	job.Priority = 1
	_, err = client.EnqueueJobs(t.Context(), by, &wire.PinLaterEnqueueRequest{QueueName: "images", Jobs: []*wire.PinLaterJob{job}})
	require.NoError(t, err)

	for setting, why := range map[string]string{
		`"pinlater_claim_timeout": "soon"`: `invalid duration \"soon\"`,
		`"pinlater_claim_timeout": "1ms"`:  "ClaimTimeout must be from",
	} {
		write(t, file, settings+`, `+setting+`}`)
		require.ErrorContains(t, serve.Run(t.Context(), serve.Config{File: file}, io.Discard), strings.ReplaceAll(why, `\"`, `"`))
	}
}
