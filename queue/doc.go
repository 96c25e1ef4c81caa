// Package queue has the queues.
//
// A local queue ([NewLocalLimitedSize] and its siblings) holds jobs by
// reference, in this process. A driver-backed queue holds them in their stored
// form, in a store that a driver of package queue/driver gives;
// [NewLocalLimitedSizeSerializable] is the one whose store is memory. Both
// honor priorities, schedules, deadlines, scopes and dependencies, and give the
// same answers; the driver-backed queue retries jobs too.
//
// A group ([NewLocalQueueGroup]) has a queue for each name, made when it is
// first used.
package queue
