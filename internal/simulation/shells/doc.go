// Package shells runs the checker of the simulation on real queues: with the shell of the
// engine that runs in production, in virtual time over MongoDB. It contains only tests:
//
//	go test ./internal/simulation/shells -shells.kills=200 -shells.fails=200 -v
package shells
