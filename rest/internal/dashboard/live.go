package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/management"
)

const (
	// liveEvery is the minimum time between two events of a connection.
	liveEvery = 2 * time.Second
	// liveBeat is the interval of comments, which keep the browser and proxies from closing
	// an idle connection.
	liveBeat = 20 * time.Second
	// liveWrite is the write timeout of an event. It must be longer than liveBeat: HTTP/2 resets
	// a stream at its write deadline, even if nothing is being written then.
	liveWrite = 30 * time.Second
)

// live sends an event after queues have changed. The event contains no data: the page is
// loaded again, so that all access checks apply.
func (d *Dashboard) live(w http.ResponseWriter, r *http.Request) error {
	err := refuseUnknown(r.URL.Query())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	changes := watch(ctx, d.options.Inspector(r))
	defer func() {
		cancel()
		for range changes { //nolint:revive // It ends with the watch.
		}
	}()
	// The first value reports success, or that the request may not read this.
	first := <-changes
	if first != nil {
		return first
	}
	connection := http.NewResponseController(w)
	send := func(text string) error {
		err := connection.SetWriteDeadline(time.Now().Add(liveWrite))
		if err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		_, err = fmt.Fprint(w, text)
		if err != nil {
			return err
		}
		return connection.Flush()
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // keeps proxies from buffering
	if r.Method == http.MethodHead {
		return nil // an answer to HEAD must end
	}
	const event = "event: changed\ndata: {}\n\n"
	// Something may have changed since the page was rendered.
	greeting := "retry: 3000\n\n" + event
	beat := time.NewTicker(liveBeat)
	defer beat.Stop()
	for text := greeting; ; {
		if send(text) != nil {
			return nil //nolint:nilerr // The browser has disconnected.
		}
		select {
		case err, open := <-changes:
			if err != nil || !open {
				return nil //nolint:nilerr // The browser reconnects, and gets the error then.
			}
			text = event
		case <-beat.C:
			text = ": still here\n\n"
		case <-ctx.Done():
			return nil
		}
	}
}

// watch sends nil after each change, and an error as the last value. The channel is closed
// at the end, which comes when ctx ends. A watch calls functions of the program: their panics must
// not end the process.
func watch(ctx context.Context, inspector management.Inspector) <-chan error {
	changes := make(chan error)
	send := func(err error) bool {
		select {
		case changes <- err:
			return err == nil
		case <-ctx.Done():
			return false
		}
	}
	go func() {
		defer close(changes)
		err := contain.Panic(func() error {
			for _, err := range inspector.Watch(ctx, liveEvery) {
				if !send(err) {
					break
				}
			}
			return nil
		})
		if err != nil {
			send(fmt.Errorf("watching the queues: %w", err))
		}
	}()
	return changes
}
