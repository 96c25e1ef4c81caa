package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/mongodb/amboy/management"
)

const (
	// liveEvery is the time between two events of a connection, at least.
	liveEvery = 2 * time.Second
	// liveBeat is how often something is sent where nothing changes, so that neither
	// side, nor a proxy, takes the connection for dead.
	liveBeat = 20 * time.Second
	// liveWrite is how long a browser may take to accept what is sent.
	liveWrite = 10 * time.Second
)

// live sends an event when queues have changed. What changed is not in it: the page is
// made anew, with all that decides what one may see.
func (d *Dashboard) live(w http.ResponseWriter, r *http.Request) error {
	err := known(r.URL.Query())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	changes := watch(ctx, d.options.Inspector(r))
	defer func() {
		cancel()
		for range changes { //nolint:revive // It ends when the watch has.
		}
	}()
	// The first says how things are, or that the request may not know that.
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
	w.Header().Set("X-Accel-Buffering", "no") // for proxies that would keep it back
	if r.Method == http.MethodHead {
		return nil // it would have no end
	}
	const event = "event: changed\ndata: {}\n\n"
	// Something may have changed since the page was made.
	greeting := "retry: 3000\n\n" + event
	beat := time.NewTicker(liveBeat)
	defer beat.Stop()
	for text := greeting; ; {
		if send(text) != nil {
			return nil //nolint:nilerr // The browser has gone, so that nobody is there to be told.
		}
		select {
		case err, open := <-changes:
			if err != nil || !open {
				return nil //nolint:nilerr // The browser comes again, and is told then.
			}
			text = event
		case <-beat.C:
			text = ": still here\n\n"
		case <-ctx.Done():
			return nil
		}
	}
}

// watch sends nil when there is something new to see, and an error as the last. The
// channel is closed at the end, which comes when ctx ends.
func watch(ctx context.Context, inspector management.Inspector) <-chan error {
	changes := make(chan error)
	go func() {
		defer close(changes)
		for _, err := range inspector.Watch(ctx, liveEvery) {
			select {
			case changes <- err:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return changes
}
