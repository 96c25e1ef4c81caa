// Package lifecycle is what all queues have in common: they start once, close within a
// second after the context of Close ends, and have a runner, middleware, events and waiters.
//
// A queue embeds Base. Its constructor sets Base.Shut, which closes everything that the queue
// owns. Close, the end of the context of Start, and the end of the context of the
// constructor all come together in one run of Shut:
//
//	Created ──StartRunner──▶ Started ──▶ Stopped
//	   └──────────Close, or a context ends──▲
//
// A stopped queue accepts no jobs and hands none out. Whatever a job, a callback or a driver
// does, Close gives up on it in time, and Base.LeftBehind says what was left.
package lifecycle
