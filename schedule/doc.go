// Package schedule puts jobs in a queue at the times of a schedule: a cron
// expression in a time zone, an interval, or times that are listed.
//
// Any number of processes may keep the same schedules for the same queue. Each
// tick has one job ID (see TickID), so that its job is put once, and the queue
// marks the last tick whose job was put, so that none is put again when the queue
// has forgotten its job. No process is in charge: a tick needs one that lives.
package schedule
