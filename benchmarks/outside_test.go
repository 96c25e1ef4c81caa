//go:build unix

package benchmarks

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/outsidetest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/rest"
)

// outsideStores are the stores of the benchmarks of outside workers.
var outsideStores = map[string]func(b testing.TB) driver.Driver{
	"memory": outsidetest.Memory,
	"sqlite": func(b testing.TB) driver.Driver { return outsidetest.SQLite(b, filepath.Join(b.TempDir(), "jobs.db")) },
}

// outsideServer serves outside workers over TCP.
type outsideServer struct {
	queue amboy.Queue
	url   string
	close func()
}

func newOutsideServer(b *testing.B, store driver.Driver) outsideServer {
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{
		Driver: store, CloseDriver: true, Name: "bench",
		NewRunner: func(amboy.Queue) (amboy.Runner, error) { return pool.NewNoop(), nil },
	})
	require.NoError(b, err)
	require.NoError(b, q.Start(context.Background()))
	d, err := outside.New(q, outside.Options{})
	require.NoError(b, err)
	inspector, err := management.NewInspector(q)
	require.NoError(b, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // It does not wait.
	require.NoError(b, err)
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: rest.Handler(inspector,
		rest.Workers(d), rest.WaitingOfClient(20_000), rest.CreateOutside(),
		rest.Authorize(func(*http.Request, rest.Access) error { return nil }))}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // it ends with Close
	}()
	return outsideServer{queue: q, url: "http://" + listener.Addr().String(), close: func() {
		_ = server.Close()
		<-done
		require.NoError(b, d.Close(context.Background()))
		q.Close(context.Background())
	}}
}

// fill puts jobs.
func (s outsideServer) fill(b *testing.B, jobs int) {
	for left := jobs; left > 0; left -= 1000 {
		some := make([]amboy.Job, min(left, 1000))
		for i := range some {
			j, err := job.NewOutside(amboy.JobType{Name: "bench", Version: 1}, job.Payload{JSON: json.RawMessage(`{"path":"cat.png","width":640}`)})
			require.NoError(b, err)
			some[i] = j
		}
		require.NoError(b, s.queue.PutMany(b.Context(), some))
	}
}

// BenchmarkOutsideHTTP measures how many jobs per second 8 clients in another process lease
// and complete over HTTP, 50 at a time, from a backlog that was put before.
func BenchmarkOutsideHTTP(b *testing.B) {
	jobs := map[string]int{"memory": 100_000, "sqlite": 30_000}
	for name, open := range outsideStores {
		b.Run(name, func(b *testing.B) {
			var took samples
			for b.Loop() {
				s := newOutsideServer(b, open(b))
				s.fill(b, jobs[name])
				runtime.GC()
				answer := outsideClient(b, s.url, "drain", strconv.Itoa(jobs[name]))
				d, err := time.ParseDuration(answer)
				require.NoError(b, err)
				took = append(took, d)
				s.close()
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(took.rate(jobs[name]), "jobs/s")
		})
	}
}

// BenchmarkOutsideIdleLatency measures the time from the request that puts a job to the
// answer to the request that waits for it, both by a client in another process.
func BenchmarkOutsideIdleLatency(b *testing.B) {
	for name, open := range outsideStores {
		b.Run(name, func(b *testing.B) {
			var took samples
			for b.Loop() {
				s := newOutsideServer(b, open(b))
				for text := range strings.FieldsSeq(outsideClient(b, s.url, "latency", "200")) {
					d, err := time.ParseDuration(text)
					require.NoError(b, err)
					took = append(took, d)
				}
				s.close()
			}
			b.ReportMetric(0, "ns/op")
			took.reportLatency(b, "")
		})
	}
}

// BenchmarkOutsideWaiting measures the memory of the server for each of 10,000 requests that
// wait for jobs, and the CPU that they take in five seconds.
func BenchmarkOutsideWaiting(b *testing.B) {
	const waiting = 10_000
	for b.Loop() {
		s := newOutsideServer(b, outsideStores["memory"](b))
		before := memoryInUse()
		command, in, out := startOutsideClient(b, s.url, "wait", strconv.Itoa(waiting))
		line, err := out.ReadString('\n')
		require.NoError(b, err, line)
		time.Sleep(time.Second) // the last requests arrive
		each := memoryInUse().since(before) / waiting
		cpu := processorTime(b)
		time.Sleep(5 * time.Second)
		b.ReportMetric(float64((processorTime(b) - cpu).Microseconds()), "cpu-µs/5s")
		b.ReportMetric(each/1024, "KiB/request")
		b.ReportMetric(0, "ns/op")
		s.close()
		require.NoError(b, in.Close())
		_ = command.Wait() // its requests were cut
	}
}

const (
	outsideModeVariable = "AMBOY_OUTSIDE_CLIENT"
	outsideURLVariable  = "AMBOY_OUTSIDE_URL"
)

// startOutsideClient starts this program again as a client.
func startOutsideClient(b *testing.B, url string, mode ...string) (*exec.Cmd, io.WriteCloser, *bufio.Reader) {
	command := exec.CommandContext(b.Context(), os.Args[0], "-test.run", "^TestOutsideClient$") //nolint:gosec // It is this program.
	command.Env = append(os.Environ(), outsideModeVariable+"="+strings.Join(mode, " "), outsideURLVariable+"="+url)
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	require.NoError(b, err)
	out, err := command.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, command.Start())
	return command, in, bufio.NewReader(out)
}

// outsideClient runs a client, and returns the first line that it prints.
func outsideClient(b *testing.B, url string, mode ...string) string {
	command, in, out := startOutsideClient(b, url, mode...)
	line, err := out.ReadString('\n')
	require.NoError(b, err, line)
	require.NoError(b, in.Close())
	_, err = io.Copy(io.Discard, out)
	require.NoError(b, err)
	require.NoError(b, command.Wait())
	return strings.TrimSpace(line)
}

// TestOutsideClient is the client of the benchmarks in another process.
func TestOutsideClient(t *testing.T) {
	mode := strings.Fields(os.Getenv(outsideModeVariable))
	if len(mode) == 0 {
		t.Skip("it is started by benchmarks")
	}
	n, err := strconv.Atoi(mode[1])
	require.NoError(t, err)
	c := &outsideCaller{url: os.Getenv(outsideURLVariable), http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 20_000}}}
	defer c.http.CloseIdleConnections()
	switch mode[0] {
	case "drain":
		c.drain(t, n)
	case "latency":
		c.latency(t, n)
	case "wait":
		c.wait(t, n)
	case "workq":
		drainByLines(t, c.url, workqLines{}, n)
	case "beanstalkd":
		drainByLines(t, c.url, beanstalkLines{}, n)
	case "wait-workq":
		waitByLines(t, c.url, n)
	}
}

type outsideCaller struct {
	url  string
	http *http.Client
}

func (c *outsideCaller) call(path string, body []byte, into any) error {
	answer, err := c.http.Post(c.url+path, "application/json", bytes.NewReader(body)) //nolint:noctx // The benchmark ends it.
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // It is read to its end.
	if answer.StatusCode >= 300 {
		text, _ := io.ReadAll(answer.Body)
		return fmt.Errorf("%s: %s", answer.Status, text)
	}
	return json.NewDecoder(answer.Body).Decode(into)
}

type leasedAnswer struct {
	Jobs []struct {
		Token string          `json:"token"`
		ID    string          `json:"id"`
		Args  json.RawMessage `json:"args"`
	} `json:"jobs"`
	Acknowledged []struct {
		Done bool `json:"done"`
	} `json:"acknowledged"`
}

// drain leases and completes jobs until n are done, and prints how long that took.
func (c *outsideCaller) drain(t *testing.T, n int) {
	var done atomic.Int64
	var clients sync.WaitGroup
	begin := time.Now()
	for range 8 {
		clients.Go(func() {
			type ack struct {
				Token    string   `json:"token"`
				Complete struct{} `json:"complete"`
			}
			var acks []ack
			for done.Load() < int64(n) {
				body, err := json.Marshal(map[string]any{"queues": []string{"bench"}, "types": []string{"bench"}, "limit": 50, "acknowledge": acks})
				require.NoError(t, err)
				var answer leasedAnswer
				if err := c.call("/v2/leases", body, &answer); err != nil {
					t.Error(err)
					return
				}
				for _, a := range answer.Acknowledged {
					if a.Done {
						done.Add(1)
					}
				}
				acks = acks[:0]
				for _, j := range answer.Jobs {
					acks = append(acks, ack{Token: j.Token})
				}
			}
		})
	}
	clients.Wait()
	fmt.Println(time.Since(begin))
}

// latency puts jobs one after the other, and prints how long each took to reach a waiting
// client.
func (c *outsideCaller) latency(t *testing.T, n int) {
	leased := make(chan time.Time)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		acknowledge := []byte("[]")
		for range n {
			body := fmt.Appendf(nil, `{"queues":["bench"],"types":["bench"],"wait":"1m","acknowledge":%s}`, acknowledge)
			var answer leasedAnswer
			if err := c.call("/v2/leases", body, &answer); err != nil || len(answer.Jobs) != 1 {
				t.Errorf("%v, %d jobs", err, len(answer.Jobs))
				close(leased)
				return
			}
			leased <- time.Now()
			acknowledge = fmt.Appendf(nil, `[{"token":%q,"complete":{}}]`, answer.Jobs[0].Token)
		}
	})
	var took []string
	for range n {
		<-time.After(10 * time.Millisecond) // the client waits again
		begin := time.Now()
		var created struct{ ID string }
		require.NoError(t, c.call("/v2/queues/bench/jobs", []byte(`{"type":"bench","outside":true,"args":{"path":"cat.png"}}`), &created))
		at, ok := <-leased
		require.True(t, ok)
		took = append(took, at.Sub(begin).String())
	}
	waiting.Wait()
	fmt.Println(strings.Join(took, " "))
}

// wait sends requests that wait, until its input ends.
func (c *outsideCaller) wait(t *testing.T, n int) {
	var sent sync.WaitGroup
	for range n {
		conn, err := net.Dial("tcp", strings.TrimPrefix(c.url, "http://")) //nolint:noctx // The server is local.
		require.NoError(t, err)
		const body = `{"queues":["bench"],"types":["bench"],"wait":"10m"}`
		_, err = fmt.Fprintf(conn, "POST /v2/leases HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		require.NoError(t, err)
		sent.Go(func() {
			_, _ = io.Copy(io.Discard, conn) // until the server ends
			_ = conn.Close()
		})
	}
	fmt.Println("waiting")
	_, _ = io.Copy(io.Discard, os.Stdin)
	sent.Wait()
}
