package schedule_test

import "github.com/mongodb/amboy/queue/internal/schedule"

type entry = schedule.Entry[string]
