// Package middleware has ready-made middleware for queues: Log writes structured log
// records, and Recover tells of panics. Package otelamboy, below it, has spans and
// metrics of OpenTelemetry; it is a package of its own so that only those who use it
// depend on that.
package middleware
