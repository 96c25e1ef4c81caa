package riverjob

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/internal/sleep"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/pgconnect"
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
	// pollEvery is how often the driver makes due jobs available, and has queues check for jobs and
	// cancellations that no notification announced: Python's and Ruby's clients send none.
	pollEvery = time.Second
	// touchEvery is how often the driver shows that it works its queues.
	touchEvery = 10 * time.Minute
	// pollTime bounds what a poll does, because its connection may be dead without an error.
	pollTime = 10 * time.Second
)

func (d *Driver) channel(topic string) string { return d.schema + "." + topic }

// changed notifies the queues of this process.
func (d *Driver) changed(change driver.Change) { d.subscribers.Notify(change) }

func (d *Driver) listener() *pgconnect.Listener {
	return &pgconnect.Listener{
		Pool:     d.pool,
		Channels: []string{d.channel(topicInsert), d.channel(topicControl)},
		Notified: d.notified,
		Lost: func(ctx context.Context, err error) {
			logging.Warning(ctx, message.Fields{
				"message": "lost the connection that listens for notifications of River; connecting again",
				"schema":  d.schema,
				"error":   err.Error(),
			})
		},
		Again: func() { d.changed(driver.Anywhere) },
	}
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
	if news.Action == actionResume {
		d.floors.drop()
	}
	d.changed(change)
}

// poll does what has to be done without notifications, until ctx ends.
func (d *Driver) poll(ctx context.Context) {
	touched := time.Now()
	failing := false
	for {
		// The jitter keeps processes from polling in step.
		if sleep.For(ctx, pollEvery-time.Duration(rand.Int64N(int64(pollEvery/10)))) != nil {
			return
		}
		bounded, cancel := context.WithTimeout(ctx, pollTime)
		_, err := d.promote(bounded, d.opts.Queues, time.Now())
		if err == nil && time.Since(touched) >= touchEvery {
			touched = time.Now()
			err = d.touchQueues(bounded)
		}
		cancel()
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
