package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/thrift/lib/go/thrift"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mongodb/amboy/pinlater/wire"
)

// The limits of the calls of PinLater's client tool.
const (
	pinlaterConnectTime = 2 * time.Second
	pinlaterCallTime    = 10 * time.Second
)

// pinlaterTool is the client tool of PinLater, whose modes are subcommands.
type pinlaterTool struct {
	*program
	host           string
	port           int
	queue          string
	concurrency    int
	batchSize      int
	queries        int
	successPercent int
	descriptor     string
	priority       int
	state          int
	future         bool
}

func (p *program) pinlater() *cobra.Command {
	t := &pinlaterTool{program: p}
	group := p.group("pinlater", "Call a PinLater server, as PinLater's client tool does",
		t.mode("create", "Make a queue", t.create),
		t.mode("enqueue", "Enqueue jobs", t.enqueue),
		t.mode("dequeue", "Dequeue jobs and acknowledge them", t.dequeue),
		t.mode("check_dequeue", "Report whether jobs are available", t.checkDequeue),
		t.mode("lookup", "Show a job with its body", t.lookup),
		t.mode("get_job_count", "Count the jobs of a state", t.count),
		t.mode("get_queue_names", "List the queues", t.queueNames),
	)
	flags := group.PersistentFlags()
	flags.StringVar(&t.host, "host", "127.0.0.1", "host of the server")
	flags.IntVar(&t.port, "port", 9010, "port of the server")
	flags.StringVar(&t.queue, "queue", "", "queue")
	flags.IntVar(&t.concurrency, "concurrency", 1, "number of connections that enqueue or dequeue")
	flags.IntVar(&t.batchSize, "batch_size", 1, "number of jobs of a call")
	flags.IntVar(&t.queries, "num_queries", 1, "number of calls; -1 for no end")
	flags.IntVar(&t.successPercent, "dequeue_success_percent", 100, "how many of 100 jobs succeed")
	flags.StringVar(&t.descriptor, "job_descriptor", "", "descriptor of the job to look up")
	flags.IntVar(&t.priority, "priority", 1, "priority of the jobs; get_job_count counts all unless it is given")
	flags.IntVar(&t.state, "job_state", 0, "state of the jobs to count: 0 pending, 1 in progress, 2 succeeded, 3 failed")
	flags.BoolVar(&t.future, "count_future_jobs", false, "count the jobs that are not due")
	return group
}

// pinlaterMode implements a mode of the client tool.
type pinlaterMode func(ctx context.Context, given *pflag.FlagSet) error

func (t *pinlaterTool) mode(use, short string, handle pinlaterMode) *cobra.Command {
	cmd := &cobra.Command{Use: use, Aliases: []string{strings.ReplaceAll(use, "_", "-")}, Short: short, Args: exactly(0)}
	cmd.RunE = t.run(func(ctx context.Context, _ []string) error {
		if err := t.check(use); err != nil {
			return err
		}
		return handle(ctx, cmd.Flags())
	})
	return cmd
}

// check refuses bad flags.
func (t *pinlaterTool) check(mode string) error {
	switch {
	case t.port < 1 || t.port > 65535:
		return usage("--port must be from 1 to 65535 (is %d)", t.port)
	case t.queue == "" && mode != "lookup" && mode != "get_queue_names":
		return usage("which queue? Set --queue")
	case t.descriptor == "" && mode == "lookup":
		return usage("which job? Set --job_descriptor")
	case t.concurrency < 1:
		return usage("--concurrency must be at least 1 (is %d)", t.concurrency)
	case t.batchSize < 1 || t.batchSize > 1<<20:
		return usage("--batch_size must be from 1 to %d (is %d)", 1<<20, t.batchSize)
	case t.queries < -1:
		return usage("--num_queries must be at least -1 (is %d)", t.queries)
	case t.successPercent < 0 || t.successPercent > 100:
		return usage("--dequeue_success_percent must be from 0 to 100 (is %d)", t.successPercent)
	case t.priority < 1 || t.priority > 127:
		return usage("--priority must be from 1 to 127 (is %d)", t.priority)
	case t.state < 0 || t.state > 3:
		return usage("--job_state must be from 0 to 3 (is %d)", t.state)
	default:
		return nil
	}
}

// pinlaterSource names the tool in its calls.
func pinlaterSource() *wire.RequestContext {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	c := wire.NewRequestContext()
	c.Source = "pinlaterclienttool:" + host
	return c
}

// pinlaterClient makes calls on a connection of its own.
type pinlaterClient struct {
	*wire.PinLaterClient
	source *wire.RequestContext
	close  func() error
}

func (t *pinlaterTool) connect(ctx context.Context) (*pinlaterClient, error) {
	address := net.JoinHostPort(t.host, strconv.Itoa(t.port))
	conn, err := (&net.Dialer{Timeout: pinlaterConnectTime}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connecting to the PinLater server: %w", err)
	}
	config := &thrift.TConfiguration{SocketTimeout: pinlaterCallTime}
	framed := thrift.NewTFramedTransportConf(thrift.NewTSocketFromConnConf(conn, config), config)
	protocol := thrift.NewTBinaryProtocolConf(framed, config)
	return &pinlaterClient{wire.NewPinLaterClient(thrift.NewTStandardClient(protocol, protocol)), pinlaterSource(), framed.Close}, nil
}

// call makes a call on a new connection.
func (t *pinlaterTool) call(ctx context.Context, do func(ctx context.Context, c *pinlaterClient) error) error {
	c, err := t.connect(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pinlaterCallTime)
	defer cancel()
	return errors.Join(do(ctx, c), c.close())
}

func (t *pinlaterTool) create(ctx context.Context, _ *pflag.FlagSet) error {
	return t.call(ctx, func(ctx context.Context, c *pinlaterClient) error {
		if err := c.CreateQueue(ctx, c.source, t.queue); err != nil {
			return err
		}
		return t.print(map[string]string{"created": t.queue}, func(out *page) { out.line("Made queue " + t.queue + ".") })
	})
}

func (t *pinlaterTool) enqueue(ctx context.Context, _ *pflag.FlagSet) error {
	return t.repeat(ctx, func(ctx context.Context, c *pinlaterClient) (int, error) {
		request := &wire.PinLaterEnqueueRequest{QueueName: t.queue}
		for range t.batchSize {
			j := wire.NewPinLaterJob()
			j.Body, j.Priority = fmt.Appendf(nil, "task_%d", rand.Uint64()), int8(t.priority) //nolint:gosec // check bounds it.
			request.Jobs = append(request.Jobs, j)
		}
		reply, err := c.EnqueueJobs(ctx, c.source, request)
		if err != nil {
			return 0, err
		}
		return len(reply.JobDescriptors), nil
	})
}

func (t *pinlaterTool) dequeue(ctx context.Context, _ *pflag.FlagSet) error {
	return t.repeat(ctx, func(ctx context.Context, c *pinlaterClient) (int, error) {
		request := wire.NewPinLaterDequeueRequest()
		request.QueueName, request.Limit = t.queue, int32(t.batchSize) //nolint:gosec // check bounds it.
		reply, err := c.DequeueJobs(ctx, c.source, request)
		if err != nil || len(reply.Jobs) == 0 {
			return 0, err
		}
		acks := &wire.PinLaterJobAckRequest{QueueName: t.queue}
		for descriptor := range reply.Jobs {
			ack := wire.NewPinLaterJobAckInfo()
			ack.JobDescriptor = descriptor
			if rand.IntN(100) < t.successPercent {
				acks.JobsSucceeded = append(acks.JobsSucceeded, ack)
			} else {
				acks.JobsFailed = append(acks.JobsFailed, ack)
			}
		}
		return len(reply.Jobs), c.AckDequeuedJobs(ctx, c.source, acks)
	})
}

func (t *pinlaterTool) checkDequeue(ctx context.Context, _ *pflag.FlagSet) error {
	return t.call(ctx, func(ctx context.Context, c *pinlaterClient) error {
		request := wire.NewPinLaterDequeueRequest()
		request.QueueName, request.Limit, request.DryRun = t.queue, 1, true
		reply, err := c.DequeueJobs(ctx, c.source, request)
		if err != nil {
			return err
		}
		available := len(reply.Jobs) > 0
		return t.print(map[string]bool{"available": available}, func(out *page) {
			if available {
				out.line("Jobs are available.")
			} else {
				out.line("No jobs are available.")
			}
		})
	})
}

func (t *pinlaterTool) lookup(ctx context.Context, _ *pflag.FlagSet) error {
	return t.call(ctx, func(ctx context.Context, c *pinlaterClient) error {
		request := wire.NewPinLaterLookupJobRequest()
		request.JobDescriptors, request.IncludeBody = []string{t.descriptor}, true
		found, err := c.LookupJobs(ctx, c.source, request)
		if err != nil {
			return err
		}
		j := found[t.descriptor]
		if j == nil {
			return &exitError{code: exitNotFound, err: fmt.Errorf("job %q does not exist", t.descriptor)}
		}
		return t.print(j, func(out *page) {
			out.row("descriptor", j.JobDescriptor)
			out.row("state", j.JobState.String())
			out.row("attempts", fmt.Sprintf("%d of %d remain", j.AttemptsRemaining, j.AttemptsAllowed))
			out.row("created", moment(time.UnixMilli(j.CreatedAtTimestampMillis)))
			out.row("run after", moment(time.UnixMilli(j.GetRunAfterTimestampMillis())))
			out.row("updated", moment(time.UnixMilli(j.GetUpdatedAtTimestampMillis())))
			out.row("claim", j.GetClaimDescriptor())
			out.row("status", j.CustomStatus)
			out.row("body", string(j.Body))
		})
	})
}

func (t *pinlaterTool) count(ctx context.Context, given *pflag.FlagSet) error {
	return t.call(ctx, func(ctx context.Context, c *pinlaterClient) error {
		request := wire.NewPinLaterGetJobCountRequest()
		request.QueueName, request.JobState, request.CountFutureJobs = t.queue, wire.PinLaterJobState(t.state), t.future
		if given.Changed("priority") {
			priority := int8(t.priority) //nolint:gosec // check bounds it.
			request.Priority = &priority
		}
		n, err := c.GetJobCount(ctx, c.source, request)
		if err != nil {
			return err
		}
		return t.print(map[string]int32{"jobs": n}, func(out *page) { out.line(strconv.Itoa(int(n))) })
	})
}

func (t *pinlaterTool) queueNames(ctx context.Context, _ *pflag.FlagSet) error {
	return t.call(ctx, func(ctx context.Context, c *pinlaterClient) error {
		names, err := c.GetQueueNames(ctx, c.source)
		if err != nil {
			return err
		}
		slices.Sort(names)
		return t.print(names, func(out *page) {
			for _, name := range names {
				out.line(name)
			}
		})
	})
}

// repetition makes calls on several connections.
type repetition struct {
	*pinlaterTool
	do func(ctx context.Context, c *pinlaterClient) (jobs int, err error)

	mu sync.Mutex
	// left is the number of calls that are left; less than 0 for no end.
	left        int
	calls, jobs int
	took        time.Duration
}

// repeat makes num_queries calls, and reports their rate and latency once a second and at the
// end.
func (t *pinlaterTool) repeat(ctx context.Context, do func(ctx context.Context, c *pinlaterClient) (jobs int, err error)) error {
	r := &repetition{pinlaterTool: t, do: do, left: t.queries}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var clients, reporter sync.WaitGroup
	for range t.concurrency {
		clients.Go(func() {
			if err := r.client(ctx); err != nil {
				cancel(err)
			}
		})
	}
	begin, done := time.Now(), make(chan struct{})
	reporter.Go(func() { r.report(done) })
	clients.Wait()
	close(done)
	reporter.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	result := map[string]any{"calls": r.calls, "jobs": r.jobs, "seconds": time.Since(begin).Seconds()}
	return t.print(result, func(out *page) {
		out.line(fmt.Sprintf("%d calls with %d jobs in %s.", r.calls, r.jobs, time.Since(begin).Round(time.Millisecond)))
	})
}

// client makes calls until none are left.
func (r *repetition) client(ctx context.Context) error {
	c, err := r.connect(ctx)
	if err != nil {
		return err
	}
	for err == nil && ctx.Err() == nil && r.next() {
		err = r.one(ctx, c)
	}
	return errors.Join(err, c.close())
}

func (r *repetition) next() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left == 0 {
		return false
	}
	if r.left > 0 {
		r.left--
	}
	return true
}

func (r *repetition) one(ctx context.Context, c *pinlaterClient) error {
	ctx, cancel := context.WithTimeout(ctx, pinlaterCallTime)
	defer cancel()
	begin := time.Now()
	jobs, err := r.do(ctx, c)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	r.jobs += jobs
	r.took += time.Since(begin)
	return err
}

// report writes the rate and the mean latency of the calls once a second.
func (r *repetition) report(done <-chan struct{}) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	calls, took := 0, time.Duration(0)
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
		}
		r.mu.Lock()
		n, d := r.calls-calls, r.took-took
		calls, took = r.calls, r.took
		r.mu.Unlock()
		_, _ = fmt.Fprintf(r.Stderr, "%d calls/s, mean latency %s\n", n, d/time.Duration(max(1, n))) // it is only progress
	}
}
