package lifecycle

import (
	"time"

	"github.com/mongodb/amboy"
)

// SubscribeEvents implements amboy.EventSource.
func (l *Base) SubscribeEvents(buffer int) (events <-chan amboy.Event, cancel func()) {
	return l.Events.Subscribe(buffer)
}

// Publish publishes an event of a job if the queue has subscribers.
func (l *Base) Publish(kind amboy.EventKind, j amboy.Job, at time.Time) {
	if l.Events.Subscribed() {
		l.Send(kind, j, at)
	}
}

// Send publishes an event of a job.
func (l *Base) Send(kind amboy.EventKind, j amboy.Job, at time.Time) {
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
	l.Events.Send(event)
}

// PublishQueueEvent publishes an event of the queue itself.
func (l *Base) PublishQueueEvent(kind amboy.EventKind, at time.Time) {
	if l.Events.Subscribed() {
		l.Events.Send(amboy.Event{Kind: kind, Queue: l.id, Time: at})
	}
}

// CloseEvents publishes EventClosed and ends all subscriptions.
func (l *Base) CloseEvents(at time.Time) {
	l.Events.Close(amboy.Event{Kind: amboy.EventClosed, Queue: l.id, Time: at})
}
