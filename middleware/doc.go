// Package middleware provides ready-made middleware for queues: Context gives jobs their
// dependencies, Log writes structured log records, and Recover reports panics. Its subpackage
// otelamboy provides spans and metrics of OpenTelemetry.
package middleware
