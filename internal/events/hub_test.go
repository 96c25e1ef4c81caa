package events_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/events"
)

func event(id int) amboy.Event {
	return amboy.Event{Kind: amboy.EventPut, JobID: fmt.Sprint(id)}
}

func ids(got <-chan amboy.Event) (all []string) {
	for e := range got {
		all = append(all, e.JobID)
	}
	return all
}

func TestSubscribersGetEventsInOrder(t *testing.T) {
	var hub events.Hub
	hub.Send(event(0))
	first, _ := hub.Subscribe(10)
	hub.Send(event(1))
	second, cancel := hub.Subscribe(10)
	hub.Send(event(2))
	cancel()
	hub.Send(event(3))
	hub.Close(amboy.Event{JobID: "last"})
	assert.Equal(t, []string{"1", "2", "3", "last"}, ids(first))
	assert.Equal(t, []string{"2"}, ids(second))
}

func TestSubscribed(t *testing.T) {
	var hub events.Hub
	require.False(t, hub.Subscribed())
	_, cancelFirst := hub.Subscribe(1)
	_, cancelSecond := hub.Subscribe(1)
	require.True(t, hub.Subscribed())
	cancelFirst()
	cancelFirst()
	require.True(t, hub.Subscribed())
	cancelSecond()
	require.False(t, hub.Subscribed())
}

func TestASlowSubscriberLearnsHowManyEventsItMissed(t *testing.T) {
	var hub events.Hub
	slow, _ := hub.Subscribe(2)
	for i := range 5 {
		hub.Send(event(i))
	}
	require.Equal(t, "0", (<-slow).JobID)
	hub.Send(event(5))
	hub.Send(event(6))
	hub.Close(amboy.Event{JobID: "last"})
	var got []amboy.Event
	for e := range slow {
		got = append(got, e)
	}
	require.Len(t, got, 3)
	assert.Equal(t, amboy.Event{Kind: amboy.EventPut, JobID: "1"}, got[0])
	assert.Equal(t, amboy.Event{Kind: amboy.EventPut, JobID: "5", Missed: 3}, got[1])
	assert.Equal(t, amboy.Event{JobID: "last", Missed: 1}, got[2], "the last event always has room")
}

func TestCloseEndsSubscriptions(t *testing.T) {
	var hub events.Hub
	open, cancel := hub.Subscribe(1)
	hub.Close(amboy.Event{JobID: "last"})
	hub.Close(amboy.Event{JobID: "again"})
	cancel()
	assert.Equal(t, []string{"last"}, ids(open))
	late, cancel := hub.Subscribe(1)
	defer cancel()
	assert.Empty(t, ids(late))
	hub.Send(event(1))
	assert.False(t, hub.Subscribed())
}

func TestConcurrentUse(t *testing.T) {
	var hub events.Hub
	var users sync.WaitGroup
	for range 4 {
		users.Go(func() {
			for i := range 500 {
				hub.Send(event(i))
			}
		})
		users.Go(func() {
			for range 100 {
				got, cancel := hub.Subscribe(3)
				cancel()
				_ = ids(got)
			}
		})
	}
	slow, cancel := hub.Subscribe(1)
	users.Wait()
	cancel()
	assert.LessOrEqual(t, len(ids(slow)), 2)
}

// BenchmarkNoSubscriber measures the cost of an event without a subscriber.
func BenchmarkNoSubscriber(b *testing.B) {
	var hub events.Hub
	for b.Loop() {
		if hub.Subscribed() {
			b.Fatal("nobody has subscribed")
		}
	}
}
