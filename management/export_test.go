package management

import "time"

// SetClock makes a runner of schedules use another clock.
func (r *ScheduleRunner) SetClock(now func() time.Time) { r.now = now }
