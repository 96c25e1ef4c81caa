package queue

import (
	"time"

	"github.com/mongodb/amboy"
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
