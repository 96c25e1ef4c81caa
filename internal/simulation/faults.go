package simulation

import (
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/amboy/internal/core"
)

// faultKind is a kind of fault.
type faultKind int

const (
	killFault faultKind = iota
	suspendFault
	partitionFault
	flakyFault
	notesFault
	deployFault
	recoverFault // it does no harm, but comes at any time
	clockFault
)

// faultPlan injects faults until there are enough.
type faultPlan struct {
	left  int
	pause time.Duration // the longest pause between two faults
	kinds []faultKind
}

// newFaultPlan returns a plan with the weighted kinds of faults for a world.
func newFaultPlan(w *World, opts Options) *faultPlan {
	kinds := []faultKind{
		killFault, killFault, killFault, killFault, killFault, killFault,
		suspendFault, suspendFault, partitionFault, partitionFault,
		flakyFault, flakyFault, notesFault, deployFault, recoverFault,
	}
	if opts.ClockSteps {
		kinds = append(kinds, clockFault, clockFault, clockFault)
	}
	return &faultPlan{left: 10 + w.random.IntN(40), pause: w.settings.core.LeaseTime, kinds: kinds}
}

// happen injects the next fault.
func (f *faultPlan) happen(w *World) {
	if f.left == 0 {
		w.endFaults()
		return
	}
	f.left--
	f.strike(w, f.kinds[w.random.IntN(len(f.kinds))])
	w.after(w.upTo(f.pause), f)
}

func (f *faultPlan) strike(w *World, kind faultKind) {
	if kind == flakyFault {
		n := w.network.(*randomNetwork)
		n.flaky, n.oneIn = w.now+w.between(time.Second, 2*w.settings.core.LeaseTime), 1+w.random.IntN(10)
		w.log(Event{Process: Store, Kind: storeFails, Note: fmt.Sprintf("in one of %d calls", n.oneIn), Until: n.flaky})
		return
	}
	if kind == clockFault {
		f.stepClocks(w)
		return
	}
	p := w.victim()
	if p == nil {
		return
	}
	lease := w.settings.core.LeaseTime
	hits := p.holds()
	switch kind {
	case killFault:
		p.kill()
		w.after(w.between(10*time.Millisecond, 2*lease), starts{p})
		count(&w.counts.Kills, hits)
	case suspendFault:
		p.suspend()
		lasts := w.between(lease/8, 8*lease)
		r := resumes{p: p, life: p.life}
		if w.oneIn(3) && lasts > 2*time.Second { // shorter times are not noticed
			r.uncounted, p.uncounted = lasts, true
		}
		w.after(lasts, r)
		count(&w.counts.Suspensions, hits)
	case deployFault:
		switch {
		case p.closing:
		case !p.isNew && w.oneIn(3):
			p.register()
		default:
			p.close(w.upTo(lease))
			count(&w.counts.Deploys, hits)
		}
	case partitionFault:
		f.cutOff(w, p)
		count(&w.counts.Partitions, hits)
	case recoverFault:
		p.step(core.RecoverNow{})
	case notesFault:
		p.link.noNotes = w.now + w.between(time.Second, 4*lease)
		w.log(Event{Process: p.index, Kind: notesLost, Until: p.link.noNotes})
	}
}

func count(n *int, hits bool) {
	if hits {
		*n++
	}
}

// victim returns a live process, if possible one that holds a lease.
func (w *World) victim() *process {
	var alive, holding []*process
	for _, p := range w.processes {
		if p.alive && !p.suspended {
			alive = append(alive, p)
			if p.holds() {
				holding = append(holding, p)
			}
		}
	}
	if len(holding) > 0 {
		alive = holding
	}
	if len(alive) == 0 {
		return nil
	}
	return alive[w.random.IntN(len(alive))]
}

// cutOff cuts one or several processes off from the store. The answers to some of them
// are slow before that.
func (f *faultPlan) cutOff(w *World, victim *process) {
	for _, p := range w.processes {
		if p != victim && !w.oneIn(5) {
			continue
		}
		if w.oneIn(2) {
			cuts{p, p.life}.happen(w)
			continue
		}
		heartbeat := w.settings.core.LeaseTime / 4
		p.link.slow, p.link.slowest = w.now+w.between(heartbeat, 4*heartbeat), heartbeat
		w.log(Event{Process: p.index, Kind: answersSlow, Until: p.link.slow})
		w.after(p.link.slow-w.now, cuts{p, p.life})
	}
}

// cuts cuts a process off from the store, in one direction or in both.
type cuts struct {
	p    *process
	life int
}

func (c cuts) happen(w *World) {
	if p := c.p; p.life == c.life && !w.faultsEnded {
		until := w.now + w.between(time.Second, 8*w.settings.core.LeaseTime)
		if w.oneIn(50) && !w.settings.refusals {
			until = w.now + w.between(time.Minute, 3*time.Hour)
		}
		note := "from requests"
		direction := w.random.IntN(3)
		if direction != 1 {
			p.link.noRequests = until
			if w.oneIn(2) {
				p.link.refuses = until
			}
		}
		if direction != 0 {
			p.link.noAnswers = until
			note = "from answers"
		}
		if direction == 2 {
			note = "in both directions"
		}
		w.log(Event{Process: p.index, Kind: cutOff, Note: note, Until: until})
	}
}

// stepClocks makes wall clocks jump.
func (f *faultPlan) stepClocks(w *World) {
	by := w.between(time.Millisecond, 8*time.Hour)
	if w.oneIn(2) {
		by = -by
	}
	hits := false
	all := w.oneIn(4)
	victim := w.random.IntN(len(w.processes))
	for i, p := range w.processes {
		if (all || i == victim) && !p.uncounted {
			p.step0 += by
			hits = hits || p.holds()
			w.log(Event{Process: p.index, Kind: clockStep, Note: by.String()})
		}
	}
	count(&w.counts.ClockSteps, hits)
}

// starts starts a process again.
type starts struct{ p *process }

func (s starts) happen(*World) { s.p.start() }

// resumes resumes a process, unless it was killed since.
type resumes struct {
	p         *process
	life      int
	uncounted time.Duration
}

func (r resumes) happen(*World) {
	if r.p.life == r.life && r.p.suspended {
		r.p.resume(r.uncounted)
	}
}

// endFaults injects no more faults, and schedules faultsOver for when the current faults
// end.
func (w *World) endFaults() {
	w.faultsEnded = true
	n := w.network.(*randomNetwork)
	until := max(w.now, n.flaky, n.late)
	for _, p := range w.processes {
		until = max(until, p.link.noRequests, p.link.noAnswers, p.link.noNotes, p.link.slow)
	}
	for _, s := range w.agenda.all {
		switch s.what.(type) {
		case starts, resumes:
			until = max(until, s.at)
		}
	}
	w.after(until-w.now+callsEnd, faultsOver{})
}

// faultsOver is the end of the last fault. Clocks are right from then on.
type faultsOver struct{}

func (f faultsOver) happen(w *World) {
	// Calls may have become late since, and processes may have to be waited for.
	if w.network.(*randomNetwork).late >= w.now || slices.ContainsFunc(w.processes, func(p *process) bool {
		return !p.alive || p.suspended || p.closing
	}) {
		w.after(time.Second, f)
		return
	}
	for _, p := range w.processes {
		p.step0 = 0
	}
	w.quietFrom = w.now
	w.calmFrom = w.now + w.settings.safetyNet() + soon
	w.log(Event{Process: Store, Kind: finalEffort})
	w.after(0, probe{})
	for _, p := range w.processes {
		if !p.isNew {
			w.after(w.calmFrom-w.now+w.upTo(w.settings.core.LeaseTime), registers{p, p.life})
		}
	}
	w.after(w.calmFrom-w.now, newWorkload(w, 20+w.random.IntN(40)))
}

// callsEnd is the time after which the core has given up all calls that never return.
const callsEnd = 15 * time.Second
