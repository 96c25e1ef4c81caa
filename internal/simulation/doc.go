// Package simulation runs the engine of driver-backed queues in virtual time. A [World]
// consists of several processes over one store, in one goroutine. Each process is a core
// (internal/core) with its queues and workers, and a shell that executes the core's
// commands. The shell, the network and the handlers of jobs are simulated; the core and
// the memory driver are those of production.
//
// A seed determines the workload and the faults, so that the same seed gives the same
// history, event by event. A [Checker] checks the history as it happens. The first broken
// promise ends the run, and [Timeline] shows what led to it:
//
//	go test ./internal/simulation -run 'TestWorlds$' -simulation.seed=17 -v
//
// [Explore] does the opposite: it takes a small world through every order of events.
//
// # The model
//
// A call of the store is sent, takes effect and is answered at separate times, and each
// of the three may fail to happen. The shell ends a call with an error at its limit,
// unless the call ignores its context: then the answer comes late, once, or never.
//
// A run is live from its start until its context ends or its process stops. A suspended
// process is stopped. When it is resumed, its core is told the time before anything else
// happens; everything that arrived meanwhile follows.
//
// # Long runs
//
//	go test ./internal/simulation -run 'TestWorlds$' -simulation.for=20m -v -timeout 30m
//	go test ./internal/simulation -run 'TestSmallWorlds' -simulation.full -v -timeout 60m
//	go test ./internal/simulation -run 'TestPlantedFaultsAreFound' -simulation.planted -v -timeout 60m
//	go test ./internal/simulation/shells -shells.kills=200 -shells.fails=200 -v
package simulation
