// Package jobstate makes the changes that a queue makes to a job itself: when it is put,
// starts, ends, is handed back or gets its next attempt. It knows neither where a job is held
// nor who runs it.
package jobstate
