package queue

import (
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var (
	_ amboy.EventSource = (*local)(nil)
	_ amboy.EventSource = (*driverQueue)(nil)
)

// SubscribeEvents implements amboy.EventSource.
func (l *lifecycle) SubscribeEvents(buffer int) (events <-chan amboy.Event, cancel func()) {
	return l.events.Subscribe(buffer)
}

// publish publishes an event of a job if the queue has subscribers.
func (l *lifecycle) publish(kind amboy.EventKind, j amboy.Job, at time.Time) {
	if l.events.Subscribed() {
		l.send(kind, j, at)
	}
}

func (l *lifecycle) send(kind amboy.EventKind, j amboy.Job, at time.Time) {
	times := j.TimeInfo()
	event := amboy.Event{
		Kind:    kind,
		Queue:   l.id,
		Time:    at,
		JobID:   j.ID(),
		JobType: j.Type(),
		Attempt: j.RetryInfo().CurrentAttempt,
	}
	if kind != amboy.EventPut {
		event.Wait = times.Waited()
	}
	switch {
	case kind.IsEnd() || kind == amboy.EventRetrying:
		event.Err = j.Error()
		event.Run = times.Duration()
	case kind == amboy.EventSnoozed || kind == amboy.EventHandedBack:
		event.Run = max(0, at.Sub(times.Start))
	}
	l.events.Send(event)
}

// publishQueueEvent publishes an event of the queue itself.
func (l *lifecycle) publishQueueEvent(kind amboy.EventKind, at time.Time) {
	if l.events.Subscribed() {
		l.events.Send(amboy.Event{Kind: kind, Queue: l.id, Time: at})
	}
}

// closeEvents publishes EventClosed and ends all subscriptions.
func (l *lifecycle) closeEvents(at time.Time) {
	l.events.Close(amboy.Event{Kind: amboy.EventClosed, Queue: l.id, Time: at})
}

// publishEnd publishes how an attempt ended. It publishes nothing for the last attempt of a
// job that asks for another: the retry handler ends that job, and publishes its end.
func (q *driverQueue) publishEnd(j amboy.Job) {
	if !q.events.Subscribed() {
		return
	}
	now := q.engine.now()
	info := amboy.NewJobInfo(j)
	state := amboy.StateOf(info, now)
	if state == amboy.StateRetrying && info.Retry.GetRemainingAttempts() == 0 {
		return
	}
	q.send(amboy.EventKind(state), j, now)
}

// publishParked publishes that a job was parked because it can't be decoded.
func (q *driverQueue) publishParked(r *driver.Record, err error) {
	if !q.events.Subscribed() {
		return
	}
	q.events.Send(amboy.Event{
		Kind:    amboy.EventParked,
		Queue:   q.id,
		Time:    q.engine.now(),
		JobID:   r.JobID(),
		JobType: amboy.JobType{Name: r.Type, Version: r.Version},
		Attempt: r.RetryInfo.CurrentAttempt,
		Err:     err,
	})
}
