package simulation

import (
	"fmt"
	"time"
)

// faultKind is a kind of fault.
type faultKind int

const (
	killFault faultKind = iota
	suspendFault
	partitionFault
	flakyFault
	notesFault
	clockFault
)

// faultPlan makes faults until there are enough.
type faultPlan struct {
	left  int
	pause time.Duration // the longest between two
	kinds []faultKind
}

// plan is what is to happen as faults, by their weights.
func newFaultPlan(w *World, opts Options) *faultPlan {
	kinds := []faultKind{
		killFault, killFault, killFault, killFault, killFault, killFault,
		suspendFault, suspendFault, partitionFault, partitionFault,
		flakyFault, flakyFault, notesFault,
	}
	if opts.ClockSteps {
		kinds = append(kinds, clockFault, clockFault, clockFault)
	}
	return &faultPlan{left: 10 + w.random.IntN(40), pause: w.settings.core.LeaseTime, kinds: kinds}
}

// happen makes the next fault.
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
		w.after(w.between(lease/8, 8*lease), resumes{p, p.life})
		count(&w.counts.Suspensions, hits)
	case partitionFault:
		f.cutOff(w, p)
		count(&w.counts.Partitions, hits)
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

// victim is a process that lives, one that holds a lease if possible.
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

// cutOff cuts a process, or all, off from the store, in one direction or in both.
func (f *faultPlan) cutOff(w *World, victim *process) {
	for _, p := range w.processes {
		if p != victim && !w.oneIn(5) {
			continue
		}
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
		if all || i == victim {
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

// resumes lets a process go on, unless it was killed since.
type resumes struct {
	p    *process
	life int
}

func (r resumes) happen(*World) {
	if r.p.life == r.life && r.p.suspended {
		r.p.resume()
	}
}

// endFaults lets all go well from now on, as soon as the faults are over that have begun.
func (w *World) endFaults() {
	w.faultsEnded = true
	n := w.network.(*randomNetwork)
	until := max(w.now, n.flaky, n.late)
	for _, p := range w.processes {
		until = max(until, p.link.noRequests, p.link.noAnswers, p.link.noNotes)
	}
	for _, s := range w.agenda.all {
		switch s.what.(type) {
		case starts, resumes:
			until = max(until, s.at)
		}
	}
	w.after(until-w.now+time.Second, faultsOver{})
}

// faultsOver is the end of the last fault. The clocks are right from then on.
type faultsOver struct{}

func (faultsOver) happen(w *World) {
	for _, p := range w.processes {
		p.step0 = 0
	}
	w.quietFrom = w.now
	w.log(Event{Process: Store, Kind: finalEffort})
	w.after(0, probe{})
}
