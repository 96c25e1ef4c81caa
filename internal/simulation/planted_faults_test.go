package simulation_test

// plantedFault is a defect that the worlds must find: in a file of the module, wrong
// replaces right, which occurs there exactly once. Both omit the indentation of their
// lines.
type plantedFault struct {
	name, file, right, wrong string
	// unseen is why the worlds may not find it in time; empty if they must.
	unseen string
}

// plantedFaults are the defects, grouped by the promise that each breaks.
var plantedFaults = []plantedFault{
	// A holder fences itself.
	{
		name: "a run is never fenced", file: "internal/core/lease.go",
		right: "c.cancel(r, amboy.ErrLeaseLost)\ndefault:",
		wrong: "default:",
	},
	{
		name: "a run is fenced after its lease is over", file: "internal/core/core.go",
		right: "call.unnoticed + c.config.LeaseTime - min(",
		wrong: "call.unnoticed + c.config.LeaseTime + min(",
	},
	{
		name: "a new lease sets no fence", file: "internal/core/lease.go",
		right: "c.timers.set(fenceTimer, r.fence)\n}\n\n// letGo",
		wrong: "}\n\n// letGo",
	},
	{
		name: "only the first lease is fenced", file: "internal/core/lease.go",
		right: "c.timers.set(fenceTimer, next)",
		wrong: "_ = next",
	},
	{
		name: "a renewal counts from its answer", file: "internal/core/lease.go",
		right: "r.fence = max(r.fence, c.fence(call))",
		wrong: "r.fence = max(r.fence, c.fence(call)+c.now.Mono-call.sent)",
	},
	{
		name: "leases are renewed as seldom as they end", file: "internal/core/core.go",
		right: "return c.config.LeaseTime / 4",
		wrong: "return c.config.LeaseTime",
	},
	{
		name: "a lease that the store calls lost goes on", file: "internal/core/lease.go",
		right: "if r := c.find(lease); r == nil || !r.transacted {\nc.lose(lease)\n}",
		wrong: "_ = lease",
	},
	{
		name: "a lost lease is handed back", file: "internal/core/finish.go",
		right: "if r.lost && end.Record == nil || end == (End{}) {",
		wrong: "if end == (End{}) {",
	},
	{
		name: "a fenced run is not handed back", file: "internal/core/finish.go",
		right: "if r.lost && end.Record == nil ||",
		wrong: "if r.isLost() && end.Record == nil ||",
	},

	// A process never takes over its own runs, even after it was suspended.
	{
		name: "recovery takes the process's own runs", file: "internal/core/duty.go",
		right: "Keep: leasesOf(c.held)",
		wrong: "Keep: nil",
	},
	{
		name: "events are handled before the time is known", file: "internal/core/core.go",
		right: "c.timePassed(now)\nc.handle(event)",
		wrong: "c.handle(event)\nc.timePassed(now)",
	},

	{
		name: "time that passed unnoticed ends no lease", file: "internal/core/timer.go",
		right: "c.doubtFences(drift)",
		wrong: "",
	},
	{
		name: "time that passed unnoticed does not count for calls under way", file: "internal/core/lease.go",
		right: "call.unnoticed += max(0, unnoticed)",
		wrong: "_ = call",
	},

	// A job that ends its processes is set aside, and takes no other job with it.
	{
		name: "a job that is interrupted again and again is not parked", file: "internal/core/claim.go",
		right: "case r.isInterruptedTooOften(l):",
		wrong: "case c.closing && r.isInterruptedTooOften(l):",
	},
	{
		name: "a suspect begins beside others", file: "internal/core/suspect.go",
		right: "if len(c.held) == 1 {",
		wrong: "if len(c.held) > 0 {",
	},
	{
		name: "others begin beside a suspect", file: "internal/core/claim.go",
		right: "return c.alone == nil && (",
		wrong: "return c != nil && (",
	},
	{
		name: "a suspect that has returned keeps others from running", file: "internal/core/suspect.go",
		right: "c.alone = nil",
		wrong: "",
	},
	{
		name: "a suspect waits for as long as it is not alone", file: "internal/core/suspect.go",
		right: "c.timers.set(aloneTimer, c.now.Mono+min(c.config.LeaseTime, alonePatience))",
		wrong: "",
	},

	{
		name: "a suspect begins under a lease in doubt", file: "internal/core/lease.go",
		right: "c.handBackSuspect()",
		wrong: "",
	},

	// A process leaves jobs of unknown kinds to others, and takes all kinds that it
	// knows.
	{
		name: "a kind that the process does not know is claimed again", file: "internal/core/finish.go",
		right: "if end.Unknown {",
		wrong: "if end.Unknown && c.closing {",
	},
	{
		name: "a kind that is known now is left to others", file: "internal/core/claim.go",
		right: "c.unknown = nil\nc.changed()",
		wrong: "c.changed()",
	},
	{
		name: "a kind that is known now is not claimed at once", file: "internal/core/claim.go",
		right: "c.unknown = nil\nc.changed()",
		wrong: "c.unknown = nil",
	},

	// Due jobs are not late.
	{
		name: "a later time takes the place of an earlier one", file: "internal/core/claim.go",
		right: "if !at.IsZero() && (c.due.IsZero() || at.Before(c.due)) {",
		wrong: "if !at.IsZero() {",
	},
	{
		name: "an earlier time is ignored while another is set", file: "internal/core/claim.go",
		right: "if !at.IsZero() && (c.due.IsZero() || at.Before(c.due)) {",
		wrong: "if !at.IsZero() && c.due.IsZero() {",
	},
	{
		name: "jobs whose time has come wait for the next poll", file: "internal/core/timer.go",
		right: "c.claimDue()",
		wrong: "",
	},
	{
		name: "the shell is not woken for what is due", file: "internal/core/timer.go",
		right: "next = min(next, c.now.Mono+min(max(0, c.due.Sub(c.now.Wall)), maxWake))",
		wrong: "next = min(next, c.now.Mono+maxWake)",
	},

	// Wall clocks jump.
	{
		name: "a lease ends by the clock of its claimant", file: "queue/driver/memory/claim.go",
		right: "e.Job.lease(d.opts.Elapsed(), req.LeaseTime)",
		wrong: "e.Job.lease(d.opts.Elapsed()+req.Now.Sub(d.opts.Now()), req.LeaseTime)",
	},
	{
		name: "waits are not shortened when a clock was set back", file: "queue/driver/memory/lease.go",
		right: "moved := d.shortenWaits()",
		wrong: "moved := false",
	},
	{
		name: "a clock that jumps is not noticed", file: "internal/core/timer.go",
		right: "if drift.Abs() > maxDrift {",
		wrong: "if drift.Abs() > 1000*time.Hour {",
	},

	// An attempt that may be retried is retried.
	{
		name: "retries that were left are not taken up", file: "internal/core/duty.go",
		right: "if c.closing {\nreturn\n}\nc.rescanRetries",
		wrong: "if c.closing || c.begun {\nreturn\n}\nc.rescanRetries",
	},
	{
		name: "retries that were left are taken up once", file: "internal/core/duty.go",
		right: "c.timers.set(retriesTimer, c.now.Mono+c.config.RetryScan)",
		wrong: "",
	},

	// A survey is followed by all that it found to be necessary.
	{
		name: "a survey recovers no leases", file: "internal/core/duty.go",
		right: "c.recoverLeases()\n}\nfor _, w := range",
		wrong: "}\nfor _, w := range",
	},
	{
		name: "a survey during an outage recovers leases", file: "internal/core/duty.go",
		right: "case c.now.Mono < c.recoverFrom:",
		wrong: "case c.closing && c.now.Mono < c.recoverFrom:",
	},
	{
		name: "a survey claims no jobs", file: "internal/core/duty.go",
		right:  "c.lookClaims, c.lookLeft = true, true",
		wrong:  "c.lookLeft = true",
		unseen: "other changes make processes claim what they were not notified of; a test of queue finds it (TestMongoDBJobsThatNoEventShowedAreFound)",
	},
	{
		name: "a survey takes up no retries", file: "internal/core/duty.go",
		right:  "c.timers.set(retriesTimer, max(c.now.Mono, c.allRetriesFrom))",
		wrong:  "_ = l",
		unseen: "a process that starts takes up what one left that was killed; a test of queue finds it (TestMongoDBJobsThatNoEventShowedAreFound)",
	},

	// A refused end does not keep others from being written.
	{
		name: "an end that waits delays the next", file: "internal/core/finish.go",
		right: "if !c.calls.busy(writeCall) {",
		wrong: "if len(c.ends.waiting) == 1 {",
	},
	{
		name: "the same end is offered again and again", file: "internal/core/finish.go",
		right:  "c.do(Refused{Run: r, Err: err})\n}\nc.ends.waiting = append(c.ends.waiting, r)",
		wrong:  "c.do(Refused{Run: r, Err: err})\n}\nc.ends.waiting = slices.Insert(c.ends.waiting, 0, r)",
		unseen: "ends that were never refused come first, so only refused ends wait for each other",
	},
	{
		name: "pauses between tries grow without end", file: "internal/core/finish.go",
		right: "c.ends.pause = min(2*c.ends.pause, lastPause)",
		wrong: "c.ends.pause *= 2",
	},
	{
		name: "a refused end is not offered again by itself", file: "internal/core/finish.go",
		right: "c.timers.set(writeTimer, c.ends.probe)",
		wrong: "",
	},
	{
		name: "a refused end goes back among the others", file: "internal/core/finish.go",
		right:  "r.alone = r.alone || r.probed",
		wrong:  "r.alone = false",
		unseen: "good ends are late by some calls only, which a test of internal/core counts (TestAnEndThatFailedAloneSharesNoCall)",
	},
	{
		name: "a refused batch is not divided", file: "internal/core/finish.go",
		right:  "c.ends.batch = (len(runs) + 1) / 2",
		wrong:  "c.ends.batch = maxBatch",
		unseen: "ends are offered one by one until the store takes one, and what failed alone stays alone",
	},
	{
		name: "an end is given up at the first error", file: "internal/core/finish.go",
		right: "r.failure = err",
		wrong: "r.failure = err\nc.done(r, err)",
	},
	{
		name: "leases are not renewed while their end waits", file: "internal/core/lease.go",
		right: "if !r.isLost() && !r.transacted {\nruns",
		wrong: "if !r.isLost() && !r.transacted && !r.finishing {\nruns",
	},
	{
		name: "a refused end counts as an outage", file: "internal/core/call.go",
		right: "if err == nil || !made.isRefusedAgain() {",
		wrong: "if err == nil || made != nil {",
	},

	// A claim that comes late is handed back.
	{
		name: "a claim that comes late is run", file: "internal/core/claim.go",
		right: "case c.now.Mono >= fence || r.lost:",
		wrong: "case r.lost:",
	},
	{
		name: "a claimed lease counts from the answer", file: "internal/core/claim.go",
		right: "fence := c.fence(call)",
		wrong: "fence := c.fence(call) + c.now.Mono - call.sent",
	},
	{
		name: "a claim that comes late exceeds the limit of runs", file: "internal/core/claim.go",
		right: "return len(l.waiting) > 0 && c.hasRoom()",
		wrong: "return len(l.waiting) > 0",
	},

	// A call that does not return blocks nothing.
	{
		name: "calls are never given up", file: "internal/core/call.go",
		right: "made.sent + made.Limit + callGrace; at",
		wrong: "made.sent + made.Limit + 1000*time.Hour; at",
	},
	{
		name: "the ends in a call that hangs are forgotten", file: "internal/core/call.go",
		right: "c.refused(made.runs, errNoAnswer, false)",
		wrong: "",
	},
	{
		name: "a check that hangs is waited for", file: "internal/core/call.go",
		right: "c.giveUpChecks()",
		wrong: "",
	},
	{
		name: "one call that hangs keeps all of its kind from being made", file: "internal/core/call.go",
		right: "maxLate = 4",
		wrong: "maxLate = 1",
	},
	{
		name: "a late call counts for ever", file: "internal/core/call.go",
		right: "c.calls.late[made.kind]--",
		wrong: "",
	},

	// After an outage holders come first.
	{
		name: "recovery does not wait for holders", file: "internal/core/call.go",
		right: "c.timers.putOff(recoverTimer, c.recoverFrom)",
		wrong: "",
	},
	{
		name: "leases are not renewed when the store is back", file: "internal/core/call.go",
		right: "c.timers.set(beatTimer, c.now.Mono)\nc.fire()",
		wrong: "c.fire()",
	},
	{
		name: "recovery goes on while the store fails", file: "internal/core/duty.go",
		right: "if c.failing {",
		wrong: "if c.failing && c.closing {",
	},
	{
		name: "recovery happens once", file: "internal/core/duty.go",
		right: "c.timers.set(recoverTimer, c.now.Mono+c.untilRecovery())",
		wrong: "",
	},

	// Workers get the existing jobs.
	{
		name: "nothing is claimed without a reason", file: "internal/core/claim.go",
		right: "high > 0 {",
		wrong: "high > 0 && c.closing {",
	},
	{
		name: "a worker that comes starts no claim", file: "internal/core/line.go",
		right: "c.serveAhead()\nc.claimIfUseful()\n}\n\n// leave",
		wrong: "c.serveAhead()\n}\n\n// leave",
	},

	// Runs that were claimed ahead.
	{
		name: "a run that was claimed ahead is started although it is to end", file: "internal/core/lease.go",
		right:  "if c.dropAhead(r) {",
		wrong:  "if c.closing && c.dropAhead(r) {",
		unseen: "runs wait for milliseconds, in which a request rarely comes; tests of internal/core do it (TestACanceledRunThatWaitsForAWorkerDoesNotStart)",
	},
	{
		name: "a run that was claimed ahead is started after its time", file: "internal/core/ahead.go",
		right: "case c.isExpired(r.Record):",
		wrong: "case false:",
	},
	{
		name: "runs that were claimed ahead are kept for ever", file: "internal/core/ahead.go",
		right: "c.ahead.runs = append(c.ahead.runs, r)\nc.timers.set(aheadTimer, r.aheadUntil)",
		wrong: "c.ahead.runs = append(c.ahead.runs, r)",
	},
	{
		name: "a stopped queue keeps what it has claimed ahead", file: "internal/core/line.go",
		right:  "c.handBackAhead(l)\n",
		wrong:  "",
		unseen: "runs wait for milliseconds, in which a queue rarely stops; a test of internal/core does it (TestRunsThatWaitForAWorkerAreHandedBackWhenTheirQueueStops)",
	},
	{
		name: "a suspect waits for runs that were claimed ahead", file: "internal/core/suspect.go",
		right:  "c.alone, r.suspectOf = r, l\nc.handBackAhead(nil)",
		wrong:  "c.alone, r.suspectOf = r, l",
		unseen: "they are handed back soon in any case; a test of internal/core counts them (TestRunsThatWaitForAWorkerAreHandedBackForASuspect)",
	},
	{
		name: "a suspect is claimed ahead", file: "internal/core/ahead.go",
		right:  " && !r.isSuspect()",
		wrong:  "",
		unseen: "a suspect is rarely behind other jobs; a test of internal/core claims one there (TestASuspectDoesNotWaitForAWorker)",
	},
	{
		name: "a change of the store starts no claim", file: "internal/core/claim.go",
		right: "c.mayHave(e.Value.(*Line))\n}\nc.claimIfUseful()",
		wrong: "c.mayHave(e.Value.(*Line))\n}",
	},
	{
		name: "a queue that was empty counts as empty for ever", file: "internal/core/claim.go",
		right: "l.mayHave, l.changed = true, true",
		wrong: "l.mayHave, l.changed = l.mayHave || len(l.waiting) == 0, true",
	},
	{
		name: "what is new while a claim is under way is missed", file: "internal/core/claim.go",
		right: "!a.line.changed && ",
		wrong: "",
	},
	{
		name: "what is new while a look is under way is missed", file: "internal/core/work_query.go",
		right: "c.lookAgain = c.calls.busy(lookCall)",
		wrong: "c.lookAgain = false\nif c.calls.busy(lookCall) {\nreturn\n}",
	},
	{
		name: "a look that found work starts no claim", file: "internal/core/work_query.go",
		right: "if w.Ready {\nc.mayHave(l)\n}",
		wrong: "",
	},
	{
		name: "others are let run for ever", file: "internal/core/claim.go",
		right: "c.yielding = false",
		wrong: "",
	},
	{
		name: "more is claimed than workers wait for", file: "internal/core/claim.go",
		right: "limit += len(l.waiting)",
		wrong: "limit += len(l.waiting) + 1",
	},
	{
		name: "the limit of runs is ignored", file: "internal/core/claim.go",
		right: "limit = min(limit, room)",
		wrong: "limit = min(limit, c.config.MaxRunning)",
	},
	{
		name: "a run that returned still counts", file: "internal/core/run.go",
		right: "c.out--",
		wrong: "",
	},
	{
		name: "a run is done with twice", file: "internal/core/finish.go",
		right: "if r.done {\nreturn\n}\nr.done = true",
		wrong: "r.done = true",
	},

	// A job that an operator cancels is canceled.
	{
		name: "requests to cancel are not obeyed", file: "internal/core/lease.go",
		right: "c.cancel(r, amboy.ErrAborted)",
		wrong: "_ = r",
	},
	{
		name: "a change of the store does not let runs be canceled", file: "internal/core/lease.go",
		right: "c.checkCancelsSoon()",
		wrong: "",
	},
	{
		name: "requests to cancel are not polled", file: "internal/core/lease.go",
		right: "if c.config.PollCancels {",
		wrong: "if c.config.PollCancels && c.closing {",
	},
	{
		name: "a job that was canceled while it was claimed goes on", file: "internal/core/claim.go",
		right:  "c.checkCancelsSoon() // a request may concern one of these records",
		wrong:  "c.cancels = call.cancels",
		unseen: "any other change of the store makes the process check, and one usually comes within seconds",
	},

	// A closed process leaves nothing.
	{
		name: "a claim under way is not waited for", file: "internal/core/core.go",
		right: "!c.calls.isOpen(claimCall) && c.ending == 0",
		wrong: "c.ending == 0",
	},
	{
		name: "ends that wait are not waited for", file: "internal/core/core.go",
		right: "!c.calls.isOpen(claimCall) && c.ending == 0",
		wrong: "!c.calls.isOpen(claimCall)",
	},
	{
		name: "workers that wait are not sent away", file: "internal/core/line.go",
		right: "for _, w := range l.waiting {\nc.do(Dismiss{w})\n}",
		wrong: "",
	},
	{
		name: "ends are kept that were given up", file: "internal/core/core.go",
		right: "c.abandon()",
		wrong: "",
	},
}
