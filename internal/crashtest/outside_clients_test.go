package crashtest_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/mongodb/amboy/pinlater/wire"
)

// otherClient is a client of another protocol. Its calls return false if the server did not
// answer: the caller tries again.
type otherClient interface {
	// put puts a job that is identified by its number.
	put(ctx context.Context, n int) bool
	// runOne leases a job and acknowledges it, until the server has answered that.
	runOne(ctx context.Context) bool
	close()
}

// otherClients makes clients, by protocol.
var otherClients = map[string]func(dir string) otherClient{
	"pinlater": func(dir string) otherClient { return &pinlaterClient{dir: dir} },
	"workq":    func(dir string) otherClient { return &workqClient{dir: dir} },
}

// otherWork is how long a job of the other protocols takes.
const otherWork = 5 * time.Millisecond

// clientQueue is the queue of the other protocols; its name begins with the protocol.
func clientQueue(protocol string) string { return protocol + "_crash" }

// bodyOf is the payload of a job.
func bodyOf(n int) string { return fmt.Sprintf("job %d", n) }

// pinlaterClient is a client of PinLater on a connection.
type pinlaterClient struct {
	dir       string
	client    *wire.PinLaterClient
	transport thrift.TTransport
}

// try calls the server on a connection, which it opens if there is none and closes after an
// error.
func (c *pinlaterClient) try(ctx context.Context, call func(ctx context.Context) error) bool {
	if c.client == nil {
		config := &thrift.TConfiguration{ConnectTimeout: patience, SocketTimeout: patience}
		c.transport = thrift.NewTFramedTransportConf(thrift.NewTSocketConf(addressesOf(c.dir)["pinlater"], config), config)
		if c.transport.Open() != nil {
			return again(ctx) && false
		}
		protocol := thrift.NewTBinaryProtocolConf(c.transport, config)
		c.client = wire.NewPinLaterClient(thrift.NewTStandardClient(protocol, protocol))
	}
	if call(ctx) == nil {
		return true
	}
	c.close()
	return again(ctx) && false
}

func (c *pinlaterClient) close() {
	if c.client != nil {
		_ = c.transport.Close() // the server may have gone
		c.client = nil
	}
}

func (c *pinlaterClient) put(ctx context.Context, n int) bool {
	return c.try(ctx, func(ctx context.Context) error {
		err := c.client.CreateQueue(ctx, wire.NewRequestContext(), clientQueue("pinlater"))
		if err == nil {
			j := wire.NewPinLaterJob()
			j.Body, j.NumAttemptsAllowed = []byte(bodyOf(n)), 1_000_000 // a timeout of a claim is an attempt
			_, err = c.client.EnqueueJobs(ctx, wire.NewRequestContext(), &wire.PinLaterEnqueueRequest{QueueName: clientQueue("pinlater"), Jobs: []*wire.PinLaterJob{j}})
		}
		return err
	})
}

func (c *pinlaterClient) runOne(ctx context.Context) bool {
	request := wire.NewPinLaterDequeueRequest()
	request.QueueName, request.Limit = clientQueue("pinlater"), 2
	var leased *wire.PinLaterDequeueResponse
	if !c.try(ctx, func(ctx context.Context) (err error) {
		leased, err = c.client.DequeueJobs(ctx, wire.NewRequestContext(), request)
		return err
	}) {
		return false
	}
	if len(leased.Jobs) == 0 {
		return again(ctx)
	}
	ack := &wire.PinLaterJobAckRequest{QueueName: clientQueue("pinlater")}
	for descriptor := range leased.Jobs {
		time.Sleep(otherWork) //nolint:forbidigo // It is the work.
		info := wire.NewPinLaterJobAckInfo()
		info.JobDescriptor = descriptor
		ack.JobsSucceeded = append(ack.JobsSucceeded, info)
	}
	for !c.try(ctx, func(ctx context.Context) error { return c.client.AckDequeuedJobs(ctx, wire.NewRequestContext(), ack) }) {
		if ctx.Err() != nil {
			return false
		}
	}
	return true
}

// workqClient is a client of workq on a connection, by the bytes of its protocol.
type workqClient struct {
	dir  string
	conn net.Conn
	in   *bufio.Reader
}

// try sends a command, and returns the first line of the answer.
func (c *workqClient) try(ctx context.Context, command string) (line string, ok bool) {
	if c.conn == nil {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addressesOf(c.dir)["workq"])
		if err != nil {
			return "", again(ctx) && false
		}
		c.conn, c.in = conn, bufio.NewReader(conn)
	}
	_, err := io.WriteString(c.conn, command)
	if err == nil {
		line, err = c.in.ReadString('\n')
	}
	if err != nil || strings.HasPrefix(line, "-SERVER-ERROR") {
		c.close()
		return "", again(ctx) && false
	}
	return strings.TrimSuffix(line, "\r\n"), true
}

func (c *workqClient) close() {
	if c.conn != nil {
		_ = c.conn.Close() // the server may have gone
		c.conn = nil
	}
}

func workqID(n int) string { return fmt.Sprintf("6ba7b810-9dad-41d1-80b4-%012x", n) }

func (c *workqClient) put(ctx context.Context, n int) bool {
	body := bodyOf(n)
	line, ok := c.try(ctx, fmt.Sprintf("add %s %s 1000 3600000 %d\r\n%s\r\n", workqID(n), clientQueue("workq"), len(body), body))
	return ok && (line == "+OK" || line == "-CLIENT-ERROR Duplicate job")
}

func (c *workqClient) runOne(ctx context.Context) bool {
	line, ok := c.try(ctx, fmt.Sprintf("lease %s 200\r\n", clientQueue("workq")))
	if !ok || line != "+OK 1" {
		return ok
	}
	described, err := c.in.ReadString('\n')
	if err == nil {
		_, err = c.in.ReadString('\n')
	}
	words := strings.Fields(described)
	if err != nil || len(words) != 4 {
		c.close()
		return false
	}
	time.Sleep(otherWork) //nolint:forbidigo // It is the work.
	for ctx.Err() == nil {
		if _, ok = c.try(ctx, fmt.Sprintf("complete %s 2\r\nok\r\n", words[0])); ok {
			return true // a duplicate result too
		}
	}
	return false
}
