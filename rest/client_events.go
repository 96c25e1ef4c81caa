package rest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest/internal/api"
)

// Watch yields the queues as they are now, and again after changes, until ctx ends; if there are
// very many, the busiest. If the connection ends, it yields an error and stops. It does not
// reconnect.
func (c *Client) Watch(ctx context.Context, every time.Duration) iter.Seq2[[]management.Queue, error] {
	return func(yield func([]management.Queue, error) bool) {
		wanted := true
		err := c.watch(ctx, every, func(queues []management.Queue) bool {
			wanted = yield(queues, nil)
			return wanted
		})
		if wanted && ctx.Err() == nil {
			yield(nil, err)
		}
	}
}

// watch reads the events of the handler until use returns false. Otherwise it returns an
// error.
func (c *Client) watch(ctx context.Context, every time.Duration, use func([]management.Queue) bool) (err error) {
	response, err := c.remote.send(ctx, http.MethodGet, "/v2/events?every="+url.QueryEscape(every.String()), api.EventStream, nil)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // the rest is not needed
	if response.StatusCode != http.StatusOK {
		return c.remote.newResponseError(response)
	}
	if err := c.remote.notAPage(response); err != nil {
		return err
	}
	reading := bufio.NewScanner(response.Body)
	reading.Buffer(nil, maxEventBytes)
	for {
		name, data, err := readEvent(reading)
		if err != nil {
			return fmt.Errorf("reading events of %s: %w", response.Request.URL.Redacted(), err)
		}
		switch name {
		case api.ErrorEvent:
			return c.remote.newFailure(response, []byte(data))
		case api.QueuesEvent:
			var list management.QueuePage
			if err := json.Unmarshal([]byte(data), &list); err != nil {
				return fmt.Errorf("reading an event of %s: %w", response.Request.URL.Redacted(), err)
			}
			if !use(list.Queues) {
				return nil
			}
		}
	}
}

// maxEventBytes is the maximum length of a line of an event.
const maxEventBytes = 64 << 20

// readEvent reads the next event: fields up to an empty line. At the end of the stream it
// returns io.ErrUnexpectedEOF, because only ctx should end it.
func readEvent(reading *bufio.Scanner) (name, data string, err error) {
	var lines []string
	for reading.Scan() {
		field, value, _ := strings.Cut(reading.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case reading.Text() == "" && lines != nil:
			return name, strings.Join(lines, "\n"), nil
		case reading.Text() == "":
			name = ""
		case field == "event":
			name = value
		case field == "data":
			lines = append(lines, value)
		}
	}
	err = reading.Err()
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return "", "", err
}
