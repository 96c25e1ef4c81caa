// Package benchmarks measures amboy's queues, and compares them in the same process with
// simpler pools of workers and with other libraries. It contains only benchmarks and tests. It
// is a module of its own, so that these libraries are no dependencies of amboy. Its README
// describes how to run it, and lists the required figures.
package benchmarks
