package amboy

import (
	"context"
	"time"
)

// ScheduleTeller is implemented by queues that make known which schedules put jobs in
// them, for the people who look after them. A schedule works without it.
type ScheduleTeller interface {
	// TellSchedules tells that this process keeps schedules, and how far they have
	// come. What was told of one before is replaced, also by other processes that keep
	// it; what is not told again within a day is forgotten. It blocks as long as the
	// store takes, returns its errors and those of a queue that was closed, and is safe
	// for concurrent use.
	TellSchedules(ctx context.Context, schedules ...ScheduleInfo) error
	// ForgetSchedules takes back what was told of the schedules with some names, until
	// a process that keeps one tells of it again. It does nothing about a schedule that
	// was not told of, and else is as TellSchedules.
	ForgetSchedules(ctx context.Context, names ...string) error
}

// ScheduleInfo describes a schedule that puts jobs in a queue.
type ScheduleInfo struct {
	// Name is its own among those of the queue.
	Name string
	// Spec says when it ticks, to people.
	Spec string
	// CatchUp says what becomes of ticks that were missed.
	CatchUp string
	// Last is the last tick whose job was put, and Next the next one; zero where there
	// is none.
	Last, Next time.Time
	// Error is why the job of the tick Next could not be put; empty where it could, or
	// was not tried yet.
	Error string
}
