package riverjob

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
)

// River's topics. The channel of a topic has the name of the schema before it.
const (
	topicInsert  = "river_insert"
	topicControl = "river_control"
)

// The actions of notifications about a queue.
const (
	actionCancel = "cancel"
	actionPause  = "pause"
	actionResume = "resume"
)

// control is a notification. One about inserted jobs has only a queue.
type control struct {
	Action string `json:"action,omitempty"`
	JobID  int64  `json:"job_id,omitempty"`
	Queue  string `json:"queue"`
}

// allQueues stands for all queues in notifications.
const allQueues = "*"

const (
	// pollEvery is how often the driver makes due jobs available, and has queues look for jobs and
	// cancellations that no notification announced: Python's and Ruby's clients send none.
	pollEvery = time.Second
	// touchEvery is how often the driver shows that it works its queues.
	touchEvery = 10 * time.Minute
	// firstReconnect and lastReconnect bound the pause between attempts to listen again.
	firstReconnect = 100 * time.Millisecond
	lastReconnect  = 5 * time.Second
)

func (d *Driver) channel(topic string) string { return d.schema + "." + topic }

// changed notifies the queues of this process.
func (d *Driver) changed(change driver.Change) { d.subscribers.Notify(change) }

// listen opens the connection that listens.
func (d *Driver) listen(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, d.pool.Config().ConnConfig)
	if err != nil {
		return nil, err
	}
	for _, topic := range []string{topicInsert, topicControl} {
		_, err = conn.Exec(ctx, "LISTEN "+pgx.Identifier{d.channel(topic)}.Sanitize())
		if err != nil {
			_ = conn.Close(context.WithoutCancel(ctx)) // The error of LISTEN is returned.
			return nil, err
		}
	}
	return conn, nil
}

// receive passes on notifications. When the connection breaks, it opens another one.
func (d *Driver) receive(ctx context.Context, conn *pgx.Conn) {
	for ctx.Err() == nil {
		n, err := conn.WaitForNotification(ctx)
		if err == nil {
			d.notified(n.Payload)
			continue
		}
		_ = conn.Close(context.WithoutCancel(ctx)) // It is broken, or no longer needed.
		if conn = d.listenAgain(ctx, err); conn == nil {
			return
		}
		d.changed(driver.Anywhere) // notifications may have been lost
	}
	_ = conn.Close(context.WithoutCancel(ctx))
}

// listenAgain returns nil when ctx has ended.
func (d *Driver) listenAgain(ctx context.Context, because error) *pgx.Conn {
	if ctx.Err() == nil {
		logging.Warning(ctx, message.Fields{
			"message": "lost the connection that listens for notifications of River; connecting again",
			"schema":  d.schema,
			"error":   because.Error(),
		})
	}
	for wait := firstReconnect; ctx.Err() == nil; wait = min(2*wait, lastReconnect) {
		conn, err := d.listen(ctx)
		if err == nil {
			return conn
		}
		pause(ctx, wait)
	}
	return nil
}

// notified passes on a notification that may concern a queue of the driver. Pauses are read by the
// next claim.
func (d *Driver) notified(payload string) {
	var news control
	if json.Unmarshal([]byte(payload), &news) != nil {
		return // it is not River's
	}
	change := driver.In(news.Queue)
	switch {
	case news.Queue == allQueues:
		change = driver.Anywhere
	case !slices.Contains(d.opts.Queues, news.Queue):
		return
	}
	change.Cancels = news.Action == actionCancel
	d.changed(change)
}

// poll does what has to be done without notifications, until ctx ends.
func (d *Driver) poll(ctx context.Context) {
	touched := time.Now()
	failing := false
	for {
		// The jitter keeps processes from polling in step.
		if !pause(ctx, pollEvery-time.Duration(rand.Int64N(int64(pollEvery/10)))) {
			return
		}
		_, err := d.promote(ctx, d.opts.Queues, time.Now())
		if err == nil && time.Since(touched) >= touchEvery {
			touched = time.Now()
			err = d.touchQueues(ctx)
		}
		if err != nil && ctx.Err() == nil && !failing {
			logging.Error(ctx, message.Fields{
				"message": "could not make due jobs of River available; trying again each second",
				"schema":  d.schema,
				"error":   err.Error(),
			})
		}
		failing = err != nil
		d.changed(driver.Change{MayClaim: true, Cancels: true})
	}
}

// pause waits. It returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
