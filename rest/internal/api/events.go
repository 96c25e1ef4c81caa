package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest/internal/web"
)

const (
	// defaultEvery is the default of the minimum time between two events.
	defaultEvery = 2 * time.Second
	// heartbeat is the interval of comments, which keep proxies from closing the connection
	// and detect that the client has gone.
	heartbeat = 15 * time.Second
	// QueuesEvent is the name of the event that contains the queues.
	QueuesEvent = "queues"
	// ErrorEvent is the name of the last event, if the events end with an error. It
	// contains a Problem.
	ErrorEvent = "error"
	// EventStream is the content type of events.
	EventStream = "text/event-stream"
)

// watchQueues sends events until the client disconnects or the server shuts down.
func watchQueues(c *call) (answer, error) {
	in := eventsInput{Every: Duration(defaultEvery)}
	if err := c.input(&in, nil); err != nil {
		return answer{}, err
	}
	ctx, cancel := context.WithCancel(c.r.Context())
	moments := follow(ctx, c.Inspector, time.Duration(in.Every))
	// The request owns the goroutine, and waits until it has ended.
	defer func() {
		cancel()
		for range moments { //nolint:revive // Discard the rest.
		}
	}()
	first, there := <-moments
	if there && first.err != nil {
		return answer{}, first.err
	}
	c.w.Header().Set("Content-Type", EventStream)
	c.w.Header().Set("X-Accel-Buffering", "no") // keeps proxies from buffering events
	c.w.WriteHeader(http.StatusOK)
	if there && c.r.Method != http.MethodHead { // an answer to HEAD must end
		web.LogUnsent(c.r, c.send(first, moments))
	}
	return answer{sent: true}, nil
}

// moment is what a watch yields.
type moment struct {
	queues []management.Queue
	err    error
}

// follow returns a channel with what a watch yields. It is closed after ctx has ended. A watch calls
// functions of the program: their panics must not end the process.
func follow(ctx context.Context, inspector management.Inspector, every time.Duration) <-chan moment {
	moments := make(chan moment)
	send := func(now moment) bool {
		select {
		case moments <- now:
			return true
		case <-ctx.Done():
			return false
		}
	}
	go func() {
		defer close(moments)
		err := contain.Panic(func() error {
			for queues, err := range inspector.Watch(ctx, every) {
				if !send(moment{queues, err}) {
					break
				}
			}
			return nil
		})
		if err != nil {
			send(moment{err: fmt.Errorf("watching the queues: %w", err)})
		}
	}()
	return moments
}

// send sends moments, and heartbeats in between, until the channel is closed. It returns
// the error of the connection.
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
	name, value := QueuesEvent, any(management.QueuePage{Queues: notNil(now.queues)})
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

// sendTime is the maximum duration of sending an event. A slower client is disconnected.
const sendTime = 30 * time.Second

func (c *call) sendText(text string) error {
	connection := http.NewResponseController(c.w)
	// The server may have a write timeout for the whole answer, which must not apply here.
	// If the deadline can't be set, there is no such timeout either.
	_ = connection.SetWriteDeadline(time.Now().Add(sendTime))
	if _, err := c.w.Write([]byte(text)); err != nil {
		return err
	}
	return connection.Flush()
}
