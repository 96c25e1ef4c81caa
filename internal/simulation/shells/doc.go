// Package shells has the checker of the simulation judge queues as services have them, with
// the shell of the engine that runs in production, in virtual time over MongoDB. It has no
// code but tests:
//
//	go test ./internal/simulation/shells -shells.kills=200 -shells.fails=200 -v
package shells
