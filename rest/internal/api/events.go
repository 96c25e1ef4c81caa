package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest/internal/web"
)

const (
	// defaultEvery is the least time between two events where none is given.
	defaultEvery = 2 * time.Second
	// heartbeat is how often something is sent, so that nobody between closes the
	// connection, and the end of it is seen.
	heartbeat = 15 * time.Second
	// QueuesEvent is the name of the event that has the queues.
	QueuesEvent = "queues"
	// ErrorEvent is the name of the last event, where the events end with an error. It
	// has a Problem.
	ErrorEvent = "error"
	// EventStream is the content type of events.
	EventStream = "text/event-stream"
)

// watchQueues sends events until the client goes, or the server shuts down.
func watchQueues(c *call) (answer, error) {
	in := eventsInput{Every: Duration(defaultEvery)}
	if err := c.input(&in, nil); err != nil {
		return answer{}, err
	}
	ctx, cancel := context.WithCancel(c.r.Context())
	moments := follow(ctx, c.Inspector, time.Duration(in.Every))
	// The request owns what follows, and so waits until it has ended.
	defer func() {
		cancel()
		for range moments { //nolint:revive // Nobody wants the rest.
		}
	}()
	first, there := <-moments
	if there && first.err != nil {
		return answer{}, first.err
	}
	c.w.Header().Set("Content-Type", EventStream)
	c.w.Header().Set("X-Accel-Buffering", "no") // for proxies that would keep events back
	c.w.WriteHeader(http.StatusOK)
	if there && c.r.Method != http.MethodHead { // what answers that has no end otherwise
		web.LogUnsent(c.r, c.send(first, moments))
	}
	return answer{sent: true}, nil
}

// moment is what a watch yields.
type moment struct {
	queues []management.Queue
	err    error
}

// follow returns a channel of what a watch yields, which is closed when ctx has ended.
func follow(ctx context.Context, inspector management.Inspector, every time.Duration) <-chan moment {
	moments := make(chan moment)
	go func() {
		defer close(moments)
		for queues, err := range inspector.Watch(ctx, every) {
			select {
			case moments <- moment{queues, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return moments
}

// send sends moments, and something in between, until there are no more. It returns the
// error of the connection.
func (c *call) send(first moment, moments <-chan moment) error {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	err := c.sendMoment(first)
	for err == nil {
		select {
		case now, there := <-moments:
			if !there {
				return nil
			}
			err = c.sendMoment(now)
		case <-beat.C:
			err = c.sendText(":\n\n")
		}
	}
	return err
}

func (c *call) sendMoment(now moment) error {
	name, value := QueuesEvent, any(QueueList{notNil(now.queues)})
	if now.err != nil {
		f := failureOf(c.r.Context(), now.err)
		web.LogFailure(c.r, f, now.err)
		name, value = ErrorEvent, problemOf(f, now.err)
	}
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encoding an event: %w", err)
	}
	return c.sendText(fmt.Sprintf("event: %s\ndata: %s\n\n", name, data))
}

// sendTime is how long sending an event may take. A client that reads no more is gone.
const sendTime = 30 * time.Second

func (c *call) sendText(text string) error {
	connection := http.NewResponseController(c.w)
	// A server may have a time limit for a whole answer, which does not fit here. Where
	// it can't be set there is none either.
	_ = connection.SetWriteDeadline(time.Now().Add(sendTime))
	if _, err := c.w.Write([]byte(text)); err != nil {
		return err
	}
	return connection.Flush()
}
