// Package schedule puts jobs in a queue at the times of a schedule: a cron expression in a
// time zone, an interval, or listed times.
//
// Any number of processes may run the same schedules for the same queue. Each tick has one
// job ID (see TickID), so its job is put once. The queue also marks the last tick whose
// job was put, so the job is not put again after the queue has removed it. The processes
// have no leader: a tick needs any one of them to be running.
package schedule
