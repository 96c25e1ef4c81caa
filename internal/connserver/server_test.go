package connserver_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mongodb/amboy/internal/connserver"
	"github.com/mongodb/amboy/internal/logtest"
	"github.com/mongodb/amboy/internal/outsidetest"
)

func TestMain(m *testing.M) {
	logtest.Silence()
	goleak.VerifyTestMain(m)
}

// fixture is a server that answers each line with the same line.
type fixture struct {
	*testing.T
	*outsidetest.Pipes
	server *connserver.Server
	stop   func()
}

func echo(c *connserver.Conn) {
	in := bufio.NewReader(c)
	for {
		if _, err := c.AwaitRequest(in); err != nil {
			return
		}
		line, err := in.ReadBytes('\n')
		if err == nil {
			_, err = c.Write(line)
		}
		if err != nil {
			return
		}
	}
}

// inFakeTime runs a test in fake time.
func inFakeTime(t *testing.T, opts connserver.Options, test func(*fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{T: t, Pipes: outsidetest.NewPipes(), server: connserver.New(opts, echo)}
		f.stop = outsidetest.Serve(t, f.server, f.Pipes)
		test(f)
		f.stop()
	})
}

func options() connserver.Options {
	return connserver.Options{
		Protocol: "echo", MaxConnections: 10, MaxPerClient: 10,
		IdleTimeout: time.Hour, ReadTimeout: time.Minute, WriteTimeout: time.Second,
	}
}

func (f *fixture) connectFrom(address net.Addr) net.Conn {
	f.Helper()
	conn, err := f.DialFrom(address)
	require.NoError(f, err)
	f.Cleanup(func() { _ = conn.Close() })
	return conn
}

func ip(text string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(text), Port: 4711} }

func (f *fixture) connect() net.Conn {
	f.Helper()
	return f.connectFrom(ip("127.0.0.1"))
}

// answers requires that a connection is served.
func (f *fixture) answers(conn net.Conn) {
	f.Helper()
	_, err := io.WriteString(conn, "a\n")
	require.NoError(f, err)
	var got [2]byte
	_, err = io.ReadFull(conn, got[:])
	require.NoError(f, err)
	require.Equal(f, "a\n", string(got[:]))
}

// ends requires that the server closes a connection, and returns after what time.
func (f *fixture) ends(conn net.Conn) time.Duration {
	f.Helper()
	begin := time.Now()
	answer, err := io.ReadAll(conn)
	require.NoError(f, err)
	require.Empty(f, answer)
	return time.Since(begin)
}

func TestListenersForOtherMachinesAreRefused(t *testing.T) {
	s := connserver.New(options(), echo)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", ":0") //nolint:gosec // That is the test.
	require.NoError(t, err)
	require.ErrorIs(t, s.Serve(l), connserver.ErrNotLoopback)
	_, err = l.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	require.NoError(t, s.Close(t.Context()))

	allowed := options()
	allowed.AllowRemote = true
	s = connserver.New(allowed, echo)
	l, err = new(net.ListenConfig).Listen(t.Context(), "tcp", ":0") //nolint:gosec // The same.
	require.NoError(t, err)
	stop := outsidetest.Serve(t, s, l)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", "127.0.0.1:"+port)
	require.NoError(t, err)
	(&fixture{T: t}).answers(conn)
	require.NoError(t, conn.Close())
	stop()
}

func TestConnectionsAreLimited(t *testing.T) {
	opts := options()
	opts.MaxConnections = 2
	inFakeTime(t, opts, func(f *fixture) {
		a, b := f.connect(), f.connect()
		f.answers(a)
		f.answers(b)
		assert.Equal(f, 2, f.server.Connections())
		f.ends(f.connect())
		require.NoError(f, a.Close())
		synctest.Wait()
		f.answers(f.connect())
		f.answers(b)
	})
}

func TestConnectionsOfAClientAreLimited(t *testing.T) {
	opts := options()
	opts.MaxPerClient = 1
	inFakeTime(t, opts, func(f *fixture) {
		first := f.connectFrom(ip("192.0.2.1"))
		f.answers(first)
		for _, same := range []string{"192.0.2.1", "::ffff:192.0.2.1"} {
			f.ends(f.connectFrom(ip(same)))
		}
		f.answers(f.connectFrom(ip("192.0.2.2")))
		f.answers(f.connectFrom(ip("2001:db8::1")))
		f.ends(f.connectFrom(ip("2001:db8::ffff"))) // of the same network
		f.answers(f.connectFrom(ip("2001:db8:0:1::1")))
		for _, local := range []net.Addr{ip("127.0.0.1"), ip("127.0.0.1"), ip("::1"), ip("::1"), &net.UnixAddr{}} {
			f.answers(f.connectFrom(local))
		}
		require.NoError(f, first.Close())
		synctest.Wait()
		f.answers(f.connectFrom(ip("192.0.2.1")))
	})
}

func TestALimitedListenerClosesFurtherConnections(t *testing.T) {
	pipes := outsidetest.NewPipes()
	l := connserver.Limit(pipes, 2, 1)
	accepted := make(chan net.Conn, 10)
	done := make(chan error)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				done <- err
				return
			}
			accepted <- conn
		}
	}()
	f := &fixture{T: t, Pipes: pipes}
	f.connectFrom(ip("192.0.2.1"))
	first := <-accepted
	f.ends(f.connectFrom(ip("192.0.2.1")))
	f.connectFrom(ip("192.0.2.2"))
	second := <-accepted
	f.ends(f.connect())
	require.NoError(t, first.Close())
	_ = first.Close() // gives no second place
	f.connectFrom(ip("192.0.2.1"))
	third := <-accepted
	f.ends(f.connect())
	require.NoError(t, errors.Join(second.Close(), third.Close(), l.Close()))
	require.ErrorIs(t, <-done, net.ErrClosed)
}

func TestIdleAndSlowClientsAreDropped(t *testing.T) {
	inFakeTime(t, options(), func(f *fixture) {
		assert.Equal(f, time.Hour, f.ends(f.connect()), "idle")
		slow := f.connect()
		begin := time.Now()
		for range 6 { // a byte now and then does not help
			_, err := slow.Write([]byte("x"))
			require.NoError(f, err)
			time.Sleep(9 * time.Second)
		}
		f.ends(slow)
		assert.Equal(f, time.Minute, time.Since(begin), "slow")
		deaf := f.connect()
		_, err := io.WriteString(deaf, "x\n")
		require.NoError(f, err)
		time.Sleep(time.Second)
		synctest.Wait()
		f.ends(deaf)
	})
}

func TestCloseLetsRequestsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closing, results := make(chan struct{}), make(chan []error, 1)
		s := connserver.New(options(), func(c *connserver.Conn) {
			_, awaited := c.AwaitRequest(bufio.NewReader(c))
			<-closing // the request takes a while
			_, written := c.Write([]byte("answer"))
			_, read := c.Read(make([]byte, 1))
			results <- []error{awaited, written, c.SetReadDeadline(time.Time{}), read}
		})
		f := &fixture{T: t, Pipes: outsidetest.NewPipes(), server: s}
		stop := outsidetest.Serve(t, s, f.Pipes)
		background := make(chan struct{})
		s.Go(func() {
			<-s.Open().Done()
			close(background)
		})
		conn := f.connect()
		_, err := conn.Write([]byte("x"))
		require.NoError(t, err)
		synctest.Wait()
		go stop()
		<-background
		require.NoError(t, s.Working().Err())
		close(closing)
		answer, err := io.ReadAll(conn)
		require.NoError(t, err)
		assert.Equal(t, "answer", string(answer))
		got := <-results
		require.NoError(t, errors.Join(got[:2]...))
		require.ErrorIs(t, got[2], connserver.ErrClosed)
		require.ErrorIs(t, got[3], os.ErrDeadlineExceeded)
		synctest.Wait()
		require.Error(t, s.Working().Err())
		require.ErrorIs(t, s.Serve(outsidetest.NewPipes()), connserver.ErrClosed)
		require.NoError(t, s.Close(t.Context()))
	})
}

func TestCloseCutsConnectionsWhenItsContextEnds(t *testing.T) {
	opts := options()
	opts.WriteTimeout = time.Hour
	inFakeTime(t, opts, func(f *fixture) {
		conn := f.connect()
		_, err := io.WriteString(conn, "x\n") // the client does not read the answer
		require.NoError(f, err)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(f.Context(), time.Second)
		defer cancel()
		err = f.server.Close(ctx)
		require.ErrorIs(f, err, context.DeadlineExceeded)
		require.ErrorContains(f, err, "1 open connection")
		f.ends(conn)
	})
}

// failing is a listener that fails a few times before it accepts.
type failing struct {
	*outsidetest.Pipes
	failures []error
}

func (l *failing) Accept() (net.Conn, error) {
	if len(l.failures) > 0 {
		err := l.failures[0]
		l.failures = l.failures[1:]
		return nil, err
	}
	return l.Pipes.Accept()
}

func TestAcceptIsTriedAgainWhileThatMayHelp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &failing{Pipes: outsidetest.NewPipes()}
		for range 12 {
			l.failures = append(l.failures, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept", syscall.EMFILE)})
		}
		s := connserver.New(options(), echo)
		f := &fixture{T: t, Pipes: l.Pipes, server: s}
		stop := outsidetest.Serve(t, s, l)
		begin := time.Now()
		f.answers(f.connect())
		assert.Less(t, 3*time.Second, time.Since(begin)) // the pauses grow
		stop()

		broken := errors.New("broken")
		s = connserver.New(options(), echo)
		require.ErrorIs(t, s.Serve(&failing{outsidetest.NewPipes(), []error{broken}}), broken)
		require.NoError(t, s.Close(t.Context()))
	})
}
