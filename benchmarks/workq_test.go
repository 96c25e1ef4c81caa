//go:build unix

package benchmarks

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/outsidetest"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/workq"
)

// workqServer serves the workq protocol over TCP.
type workqServer struct {
	address string
	close   func()
}

func newWorkqServer(b *testing.B, store driver.Driver) workqServer {
	g := outsidetest.StartGroup(b, queue.DriverQueueOptions{Driver: store, CloseDriver: true}, outside.Options{})
	s, err := workq.New(g.Queues, g.Dispatcher, workq.Options{})
	require.NoError(b, err)
	listener := outsidetest.Listen(b)
	stop := outsidetest.Serve(b, s, listener)
	return workqServer{address: listener.Addr().String(), close: func() {
		stop()
		g.Close()
	}}
}

// lineJobs is the number of jobs of BenchmarkWorkq.
const lineJobs = 20_000

// BenchmarkWorkq measures how many jobs per second go through a server one at a time: 8
// clients put them while 8 clients lease and complete them, in another process, over TCP.
// The peer is beanstalkd, with the same client code.
func BenchmarkWorkq(b *testing.B) {
	for name, open := range outsideStores {
		b.Run(name, func(b *testing.B) {
			var took samples
			var cpu time.Duration
			for b.Loop() {
				s := newWorkqServer(b, open(b))
				before := processorTime(b)
				took = append(took, byLines(b, s.address, "workq"))
				cpu += processorTime(b) - before
				s.close()
			}
			b.ReportMetric(0, "ns/op")
			reportServerTime(b, cpu, len(took))
			b.ReportMetric(took.rate(lineJobs), "jobs/s")
		})
	}
	b.Run("beanstalkd", func(b *testing.B) {
		program, err := exec.LookPath("beanstalkd")
		if err != nil {
			b.Skip("beanstalkd is not installed: apt-get install beanstalkd")
		}
		var took samples
		var cpu time.Duration
		for b.Loop() {
			address, stop := startBeanstalkd(b, program)
			took = append(took, byLines(b, address, "beanstalkd"))
			cpu += stop()
		}
		b.ReportMetric(0, "ns/op")
		reportServerTime(b, cpu, len(took))
		b.ReportMetric(took.rate(lineJobs), "jobs/s")
	})
}

func byLines(b *testing.B, address, mode string) time.Duration {
	took, err := time.ParseDuration(outsideClient(b, address, mode, strconv.Itoa(lineJobs)))
	require.NoError(b, err)
	return took
}

// reportServerTime reports the processor time that a server took for a job, which depends
// less on what else the machine does.
func reportServerTime(b *testing.B, took time.Duration, runs int) {
	b.ReportMetric(float64(took.Microseconds())/float64(runs*lineJobs), "server-µs/job")
}

// startBeanstalkd starts the peer. stop returns the processor time that it took.
func startBeanstalkd(b *testing.B, program string) (address string, stop func() time.Duration) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // It does not wait.
	require.NoError(b, err)
	address = l.Addr().String()
	require.NoError(b, l.Close())
	_, port, _ := net.SplitHostPort(address)
	command := exec.CommandContext(b.Context(), program, "-l", "127.0.0.1", "-p", port) //nolint:gosec // It is the peer.
	command.Stderr = os.Stderr
	require.NoError(b, command.Start())
	require.Eventually(b, func() bool {
		conn, err := net.Dial("tcp", address) //nolint:noctx // It is local.
		if err != nil {
			return false
		}
		return conn.Close() == nil
	}, 10*time.Second, 10*time.Millisecond)
	return address, func() time.Duration {
		require.NoError(b, command.Process.Kill())
		_ = command.Wait() // it was killed
		return command.ProcessState.UserTime() + command.ProcessState.SystemTime()
	}
}

// BenchmarkWorkqWaiting measures the memory of the server for each of 10,000 connections
// that wait for a job, and the CPU that they take in five seconds.
func BenchmarkWorkqWaiting(b *testing.B) {
	const waiting = 10_000
	for b.Loop() {
		s := newWorkqServer(b, outsideStores["memory"](b))
		before := memoryInUse()
		command, in, out := startOutsideClient(b, s.address, "wait-workq", strconv.Itoa(waiting))
		line, err := out.ReadString('\n')
		require.NoError(b, err, line)
		time.Sleep(3 * time.Second) // the last requests arrive, and the server watches their connections
		each := memoryInUse().since(before) / waiting
		cpu := processorTime(b)
		time.Sleep(5 * time.Second)
		b.ReportMetric(float64((processorTime(b) - cpu).Microseconds()), "cpu-µs/5s")
		b.ReportMetric(each/1024, "KiB/connection")
		b.ReportMetric(0, "ns/op")
		require.NoError(b, in.Close())
		require.NoError(b, command.Wait())
		s.close()
	}
}

// lineDialect is a protocol of lines and blocks.
type lineDialect interface {
	// put is the command that puts job n, and lease the one that waits a second for a job.
	put(n int, payload []byte) []byte
	lease() []byte
	// leased returns the ID and the size of the job that the answer to lease announces, after
	// it has read the rest of the announcement; no ID if no job came.
	leased(line string, in *bufio.Reader) (id string, size int, err error)
	// complete is the command that ends a job.
	complete(id string) []byte
}

type workqLines struct{}

func (workqLines) put(n int, payload []byte) []byte {
	return fmt.Appendf(nil, "add 6ba7b810-9dad-41d1-80b4-%012x bench 60000 600000 %d\r\n%s\r\n", n, len(payload), payload)
}

func (workqLines) lease() []byte { return []byte("lease bench 1000\r\n") }

func (workqLines) leased(line string, in *bufio.Reader) (id string, size int, err error) {
	if line == "-TIMEOUT\r\n" {
		return "", 0, nil
	}
	line, err = in.ReadString('\n')
	words := strings.Fields(line)
	if err != nil || len(words) != 4 {
		return "", 0, fmt.Errorf("%q: %w", line, err)
	}
	size, err = strconv.Atoi(words[3])
	return words[0], size, err
}

func (workqLines) complete(id string) []byte { return []byte("complete " + id + " 0\r\n\r\n") }

type beanstalkLines struct{}

func (beanstalkLines) put(_ int, payload []byte) []byte {
	return fmt.Appendf(nil, "put 0 0 60 %d\r\n%s\r\n", len(payload), payload)
}

func (beanstalkLines) lease() []byte { return []byte("reserve-with-timeout 1\r\n") }

func (beanstalkLines) leased(line string, _ *bufio.Reader) (id string, size int, err error) {
	words := strings.Fields(line)
	if len(words) == 1 && words[0] == "TIMED_OUT" {
		return "", 0, nil
	}
	if len(words) != 3 {
		return "", 0, fmt.Errorf("%q", line)
	}
	size, err = strconv.Atoi(words[2])
	return words[1], size, err
}

func (beanstalkLines) complete(id string) []byte { return []byte("delete " + id + "\r\n") }

// lineClient is a connection. It sends one command at a time.
type lineClient struct {
	conn net.Conn
	in   *bufio.Reader
}

func newLineClient(t *testing.T, address string) *lineClient {
	conn, err := net.Dial("tcp", address) //nolint:noctx // It is local.
	require.NoError(t, err)
	return &lineClient{conn: conn, in: bufio.NewReader(conn)}
}

// call sends a command, and returns the first line of the answer.
func (c *lineClient) call(command []byte) (string, error) {
	if _, err := c.conn.Write(command); err != nil {
		return "", err
	}
	return c.in.ReadString('\n')
}

// drainByLines puts n jobs with 8 clients, leases and completes them with 8 others, and prints
// how long that took.
func drainByLines(t *testing.T, address string, d lineDialect, n int) {
	const each = 8
	payload := bytes.Repeat([]byte("x"), 100)
	var put, done atomic.Int64
	var clients sync.WaitGroup
	begin := time.Now()
	var took atomic.Int64
	for range each {
		producer, worker := newLineClient(t, address), newLineClient(t, address)
		clients.Go(func() {
			for i := put.Add(1); i <= int64(n); i = put.Add(1) {
				if line, err := producer.call(d.put(int(i), payload)); err != nil || strings.HasPrefix(line, "-") {
					t.Errorf("putting: %q, %v", line, err)
					return
				}
			}
		})
		clients.Go(func() {
			for done.Load() < int64(n) {
				id, err := worker.lease(d)
				if err == nil && id != "" {
					var line string
					line, err = worker.call(d.complete(id))
					if strings.HasPrefix(line, "-") {
						err = fmt.Errorf("completing: %q", line)
					}
					if done.Add(1) == int64(n) {
						took.Store(int64(time.Since(begin)))
					}
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	clients.Wait()
	fmt.Println(time.Duration(took.Load()))
}

// lease leases a job, and returns its ID; empty if none came.
func (c *lineClient) lease(d lineDialect) (string, error) {
	line, err := c.call(d.lease())
	if err != nil {
		return "", err
	}
	id, size, err := d.leased(line, c.in)
	if err != nil || id == "" {
		return "", err
	}
	_, err = io.CopyN(io.Discard, c.in, int64(size)+2)
	return id, err
}

// waitByLines opens n connections that wait for a job, prints a line when they are open, and
// returns at the end of the input.
func waitByLines(t *testing.T, address string, n int) {
	conns := make([]net.Conn, n)
	for i := range conns {
		conns[i] = newLineClient(t, address).conn
		_, err := io.WriteString(conns[i], "lease bench 600000\r\n")
		require.NoError(t, err)
	}
	fmt.Println("waiting")
	_, err := io.Copy(io.Discard, os.Stdin)
	require.NoError(t, err)
	for _, conn := range conns {
		require.NoError(t, conn.Close())
	}
}
