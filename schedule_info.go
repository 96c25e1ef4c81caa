package amboy

import (
	"context"
	"time"
)

// ScheduleTeller is implemented by queues that can show operators which schedules put jobs
// in them. A schedule works without it.
type ScheduleTeller interface {
	// TellSchedules records that this process runs schedules, and their progress. It
	// replaces earlier records of the same schedules, including those of other processes.
	// A record that is not renewed within a day is dropped. TellSchedules blocks for the
	// call to the store, returns its errors and an error if the queue is closed, and is
	// safe for concurrent use.
	TellSchedules(ctx context.Context, schedules ...ScheduleInfo) error
	// ForgetSchedules removes the records of the named schedules, until a process that
	// runs one records it again. It ignores unknown names. It blocks and returns errors
	// as TellSchedules does, and is safe for concurrent use.
	ForgetSchedules(ctx context.Context, names ...string) error
}

// ScheduleInfo describes a schedule that puts jobs in a queue.
type ScheduleInfo struct {
	// Name is unique among the schedules of the queue.
	Name string
	// Spec describes when it ticks, for operators.
	Spec string
	// CatchUp describes what happens to missed ticks.
	CatchUp string
	// Last is the last tick whose job was put, and Next is the next tick; zero if there
	// is none.
	Last, Next time.Time
	// Error is why the job of the tick Next could not be put; empty if it was put or has
	// not been tried yet.
	Error string
}
