// Package benchmarks measures amboy's queues, beside simpler and other ways of
// running functions on a pool of workers that are measured in the same process.
// It has benchmarks and tests only, in a module of its own, so that what it
// compares with is no dependency of the library. Its README says how to run it
// and what each figure should be.
package benchmarks
