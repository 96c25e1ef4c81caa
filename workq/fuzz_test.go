package workq_test

import (
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/workq"
)

// FuzzLine sends a line, with the block that it announces, and then another command. The
// connection must be lost if and only if the description of the protocol says so.
func FuzzLine(f *testing.F) {
	for _, line := range []string{
		"add " + id(1) + " q 1000 60000 2", "add " + id(1) + " q 1000 60000 2 -priority=", "add x q 1 1 1048577", "run " + id(1) + " q 1000 50 0",
		"schedule " + id(1) + " q 1 2592000000 2026-01-01T00:00:00Z 0", "lease a b 86400000", "lease a 0 -x=1", "result " + id(1) + " 100",
		"fail " + id(1) + " *", "inspect queues 0 100", "inspect jobs q 0 1", "", " ", "-a=b", "delete " + id(1), "add = = = = =",
	} {
		f.Add(line, []byte("hi"))
	}
	f.Fuzz(func(t *testing.T, line string, content []byte) {
		if strings.ContainsAny(line, "\n") || len(line) > workq.MaxLine {
			t.Skip("not a line")
		}
		if workq.IsHTTP(line) {
			t.Skip("not of this protocol")
		}
		size, has, bad := workq.BlockOf(line)
		if size > 1<<16 {
			t.Skip("too large a block for a fast test")
		}
		inFakeTime(t, noOptions, func(f *fixture) {
			c := f.connect()
			input := line + "\r\n"
			if has {
				content = append(content, make([]byte, size)...)[:size]
				input += string(content) + "\r\n"
			}
			out := c.collect()
			go func() { _, _ = io.WriteString(c.conn, input+"nonsense\r\n") }() // fails if the connection is lost
			time.Sleep(2 * time.Second)
			synctest.Wait()
			text, lost := out()
			switch {
			case bad:
				assert.True(f, strings.HasPrefix(text, "-CLIENT-ERROR Invalid "), "%q", text)
				assert.Equal(f, 1, strings.Count(text, "\n"))
				assert.True(f, lost)
			case text != "": // otherwise it waits
				assert.True(f, strings.HasSuffix(text, unknown), "%q", text)
				assert.Greater(f, len(text), len(unknown))
				assert.False(f, lost)
			}
		})
	})
}

// collect reads everything that arrives. The function returns what has arrived, and reports
// whether the connection has ended.
func (c *client) collect() (arrived func() (text string, lost bool)) {
	var mu sync.Mutex
	var all []byte
	ended := false
	go func() {
		part := make([]byte, 4096)
		for {
			n, err := c.conn.Read(part)
			mu.Lock()
			all = append(all, part[:n]...)
			ended = err != nil
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return func() (string, bool) {
		mu.Lock()
		defer mu.Unlock()
		return string(all), ended
	}
}

// FuzzInput sends any bytes. The server must go on serving others, and nothing must be left
// of the connection.
func FuzzInput(f *testing.F) {
	f.Add([]byte(add(1, "q", 1000, 60000, "x") + "lease q 100\r\n" + complete(1, "") + result(1, 0)))
	f.Add([]byte("add\n"))
	f.Add([]byte("add " + id(1) + " q 1 1 100\r\nabc"))
	f.Add([]byte("lease q 86400000\r\nlease q 86400000\r\n"))
	f.Add([]byte(run(1, "q", 1, 86400000, "x") + "\x00\xff\r\n"))
	f.Fuzz(func(t *testing.T, input []byte) {
		inFakeTime(t, noOptions, func(f *fixture) {
			c := f.connect()
			go func() {
				_, _ = c.conn.Write(input) // fails if the connection is lost
				_ = c.conn.Close()
			}()
			go func() { _, _ = io.Copy(io.Discard, c.conn) }()
			synctest.Wait()
			f.connect().goes()
			time.Sleep(2 * time.Second) // the server has found out that the client has gone
			synctest.Wait()
			last := f.connect()
			last.send("inspect server\r\n")
			require.Equal(f, "+OK 1", last.line())
			values, _ := last.entry()
			require.Equal(f, "2", values["active-clients"])
		})
	})
}
