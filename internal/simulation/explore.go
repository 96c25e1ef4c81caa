package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/amboy/internal/core"
)

// Small describes a small world for Explore.
type Small struct {
	Processes int
	Tasks     []*Task
	// Faults is the maximum number of faults.
	Faults int
	// Lease is the length of leases.
	Lease time.Duration
	// Short allows each run to return also at once.
	Short bool
	// MaxStates is the number of states after which the exploration ends; 0 means no
	// limit.
	MaxStates int
}

// Explored is the result of Explore.
type Explored struct {
	// States counts the states in which more than one thing could happen, Steps all
	// events that were made happen, and Ends the ways in which the world ended.
	States, Steps, Ends int
	// Complete is true if nothing was left out.
	Complete  bool
	Violation *Violation
	Events    []Event
}

// Explore takes a small world through every order of events. In each state it tries
// everything that may happen next: each message in transit may arrive, each run may
// return, and, while more faults are allowed, each process may be killed, suspended or
// cut off, and each message may be lost, be late or become an error. If nothing is in
// progress, the time of the next timer comes. A state that was reached before is not
// continued (see digest), and of independent events only one order is tried (see
// independent). Explore stops at the first broken promise. One of the promises is that
// jobs end: a state that leads back to itself without a fault is a violation.
func Explore(small Small) (*Explored, error) {
	x := &explorer{small: small, seen: map[digest]struct{}{}, stack: []*choice{nil}, digester: newDigester()}
	for len(x.stack) > 0 {
		if small.MaxStates > 0 && len(x.seen) >= small.MaxStates {
			return &x.Explored, nil
		}
		last := len(x.stack) - 1
		from := x.stack[last]
		x.stack[last] = nil
		x.stack = x.stack[:last]
		if err := x.follow(from); err != nil || x.Violation != nil {
			return &x.Explored, err
		}
	}
	x.Complete = true
	return &x.Explored, nil
}

// choice is one of the events that could happen in a state, after the choices before it.
type choice struct {
	before *choice
	action
	in digest
}

// path lists the actions that lead to a choice.
func (c *choice) path() (actions []action) {
	for ; c != nil; c = c.before {
		actions = append(actions, c.action)
	}
	slices.Reverse(actions)
	return actions
}

// goesThrough reports whether the path passes a state.
func (c *choice) goesThrough(state digest) bool {
	for ; c != nil; c = c.before {
		if c.in == state {
			return true
		}
	}
	return false
}

type explorer struct {
	Explored
	small Small
	seen  map[digest]struct{}
	stack []*choice

	digester *digester
}

// follow replays the path to a state, and continues to the end or to a known state. The
// alternatives on the way are pushed on the stack.
func (x *explorer) follow(from *choice) error {
	w, err := x.replay(from, false)
	if err != nil {
		return err
	}
	for {
		x.advance(w)
		if w.checker.violation != nil {
			return x.report(w.checker.violation, from)
		}
		if len(w.checker.Open()) == 0 && !w.busy() {
			x.Ends++
			if v := w.checker.End(w.now); v != nil {
				return x.report(v, from)
			}
			return nil
		}
		actions := w.actions(x.small.Short)
		var in digest
		if len(actions) > 1 {
			in = w.digest(x.digester)
			if _, known := x.seen[in]; known {
				if from.goesThrough(in) {
					w.violate(Late, "", "the same events repeat for ever, and jobs %v do not end", w.checker.Open())
					return x.report(w.checker.violation, from)
				}
				return nil
			}
			x.seen[in] = struct{}{}
			x.States++
		}
		for i := len(actions) - 1; i > 0; i-- {
			x.stack = append(x.stack, &choice{from, actions[i], in})
		}
		from = &choice{from, actions[0], in}
		x.Steps++
		w.do(actions[0])
	}
}

// replay returns a world in which the choices up to to were made.
func (x *explorer) replay(to *choice, recording bool) (*smallWorld, error) {
	w, err := x.newWorld(recording)
	if err != nil {
		return nil, err
	}
	for _, a := range to.path() {
		x.advance(w)
		w.do(a)
	}
	return w, nil
}

// advance does what happens at once, and advances time if nothing is in progress.
func (x *explorer) advance(w *smallWorld) {
	for {
		w.notify()
		w.forgetStale()
		s := w.atOnce()
		if s == nil {
			break
		}
		w.take(s).dispatch(s)
	}
	first := w.agenda.all[0]
	for _, s := range w.agenda.all {
		if s.at < first.at {
			first = s
		}
	}
	w.now = max(w.now, first.at)
	if w.now > w.lastFault+x.patience() {
		w.violate(Late, "", "jobs %v have not ended %s after the last fault", w.checker.Open(), w.now-w.lastFault)
	}
}

// patience returns how long a world may continue after the last fault.
func (x *explorer) patience() time.Duration { return 20 * x.small.Lease }

// report replays what led to a violation, with the history.
func (x *explorer) report(v *Violation, from *choice) error {
	w, err := x.replay(from, true)
	if err != nil {
		return err
	}
	x.advance(w)
	x.Violation, x.Events = v, w.events
	return nil
}

// smallWorld is a world for exploration.
type smallWorld struct {
	*World
	*smallNetwork
	places []int // of the processes, in their order
}

// smallNetwork is the network of a small world, in which messages without a fault take no
// time.
type smallNetwork struct {
	faults    int
	lastFault time.Duration
}

func (n *smallNetwork) fate(w *World, c *call) fate {
	return fate{requestLost: w.now < c.p.link.noRequests}
}

func (n *smallNetwork) losesAnswer(w *World, c *call) bool {
	return c.fate.answerLost || w.now < c.p.link.noAnswers
}

// notification merges several notifications into one.
func (n *smallNetwork) notification(w *World, p *process) (delay time.Duration, lost bool) {
	underWay := slices.ContainsFunc(w.agenda.all, func(s *scheduled) bool {
		_, is := s.what.(notification)
		return is && s.to == p && s.life == p.life
	})
	return 0, underWay || w.now < p.link.noAnswers
}

func (x *explorer) newWorld(recording bool) (*smallWorld, error) {
	n := &smallNetwork{faults: x.small.Faults}
	w, err := newWorld(settings{
		processes: x.small.Processes,
		queues:    []string{"q"},
		workers:   1,
		core: core.Config{
			LeaseTime: x.small.Lease, PollMin: x.small.Lease, PollMax: 3 * x.small.Lease, BatchEnds: true, ClaimAhead: true, FewLines: 16,
			RetryScan: 2 * x.small.Lease, Random: func() float64 { return 0.5 },
		},
		notified:   true,
		retryPause: x.small.Lease / 4,
	}, nil, n)
	if err != nil {
		return nil, err
	}
	w.silent = !recording
	for _, t := range x.small.Tasks {
		if !w.put(t) {
			return nil, fmt.Errorf("task %q was refused", t.ID)
		}
	}
	for _, p := range w.processes {
		p.start()
	}
	small := &smallWorld{World: w, smallNetwork: n}
	for i := range w.processes {
		small.places = append(small.places, i)
	}
	return small, nil
}

// deed is something done to a scheduled happening or to a process.
type deed int

const (
	goOn deed = iota
	failBefore
	failAfter
	comeLate
	loseAnswer
	answerLate
	killIt
	suspendIt
	cutItOff
)

// action is something that may happen next: a deed and the number of its target, which is
// the same in each replay of the world.
type action struct {
	deed deed
	to   uint64
}

// actions returns everything that may happen next.
func (w *smallWorld) actions(short bool) (actions []action) {
	enabled := w.enabled(short)
	if few := w.independent(enabled); few != nil {
		return few
	}
	for _, s := range enabled {
		actions = append(actions, action{goOn, s.seq})
	}
	for _, p := range w.processes {
		actions = append(actions, w.faultsOf(p, enabled)...)
	}
	return actions
}

// enabled returns what may happen next without a fault.
func (w *smallWorld) enabled(short bool) (enabled []*scheduled) {
	for _, s := range w.sorted() {
		r, returns := s.what.(runReturns)
		if s.at <= w.now || short && returns && s.at-r.run.task.Lasts == w.now && !s.to.suspended {
			enabled = append(enabled, s)
		}
	}
	return enabled
}

// faultsOf returns the possible faults of a process and of its calls, if more faults are
// allowed.
func (w *smallWorld) faultsOf(p *process, enabled []*scheduled) (actions []action) {
	if w.faults == 0 {
		return nil
	}
	for _, s := range enabled {
		if e, ok := s.what.(effect); ok && e.call.p == p {
			for fault := failBefore; fault <= answerLate; fault++ {
				actions = append(actions, action{fault, s.seq})
			}
		}
	}
	if p.alive && !p.suspended {
		for fault := killIt; fault <= cutItOff; fault++ {
			actions = append(actions, action{fault, uint64(p.index)})
		}
	}
	return actions
}

// do performs an action.
func (w *smallWorld) do(a action) {
	switch {
	case a.deed == goOn:
		s := w.find(a.to)
		w.take(s).dispatch(s)
	case a.deed < killIt:
		w.failCall(a.deed, w.find(a.to))
	default:
		w.failProcess(a.deed, w.processes[a.to])
	}
}

func (w *smallWorld) find(seq uint64) *scheduled {
	i := slices.IndexFunc(w.agenda.all, func(s *scheduled) bool { return s.seq == seq })
	return w.agenda.all[i]
}

// fault counts a fault and records when it ends.
func (w *smallWorld) fault(over time.Duration) {
	w.faults--
	w.lastFault = max(w.lastFault, w.now+over)
}

// failCall makes a call fail that is about to take effect.
func (w *smallWorld) failCall(how deed, s *scheduled) {
	late := w.settings.core.LeaseTime * 5 / 4
	c := s.what.(effect).call
	w.take(s)
	switch how {
	case failBefore:
		w.fault(0)
		w.agenda.add(&scheduled{at: w.now, to: c.p, life: c.life, what: callEnds{c, errStoreFails}})
	case failAfter:
		w.fault(0)
		c.fate.after = errStoreFails
		w.dispatch(s)
	case comeLate:
		w.fault(late)
		w.after(late, s.what)
	case loseAnswer:
		w.fault(c.limit)
		c.fate.answerLost = true
		w.dispatch(s)
	case answerLate:
		w.fault(late)
		c.fate.ignoresLimit, c.fate.answer = true, late
		w.dispatch(s)
	}
}

// failProcess injects a fault of a process.
func (w *smallWorld) failProcess(how deed, p *process) {
	long := w.settings.core.LeaseTime * 3 / 2
	switch how {
	case killIt:
		w.fault(0)
		p.kill()
		w.after(0, starts{p})
	case suspendIt:
		w.fault(long)
		p.suspend()
		w.after(long, resumes{p: p, life: p.life})
	case cutItOff:
		w.fault(long)
		p.link.noRequests, p.link.noAnswers = w.now+long, w.now+long
		w.log(Event{Process: p.index, Kind: cutOff, Until: w.now + long})
	}
}

// sorted returns the scheduled happenings in the order in which they were planned.
func (w *smallWorld) sorted() []*scheduled {
	all := slices.Clone(w.agenda.all)
	slices.SortFunc(all, func(a, b *scheduled) int { return cmp.Compare(a.seq, b.seq) })
	return all
}

// atOnce returns a happening that comes before anything else: within a process, or
// between it and the store if its timing makes no difference to others. Answers to claims
// are excluded, because other processes may claim before they arrive.
func (w *smallWorld) atOnce() (first *scheduled) {
	for _, s := range w.agenda.all {
		if _, resumes := s.what.(resumes); s.at > w.now || resumes || !s.isAtOnce() && !s.isDeferred() {
			continue
		}
		if first == nil || compare(s, first, w.places) < 0 {
			first = s
		}
	}
	return first
}

// isDeferred reports whether the happening is for a suspended process.
func (s *scheduled) isDeferred() bool { return s.to != nil && s.to.suspended }

func (s *scheduled) isAtOnce() bool {
	switch h := s.what.(type) {
	case workerComes, yielded, runBegins, starts, notification:
		return true
	case effect:
		return h.call.isAside()
	case callEnds:
		return h.call.path != claimPath
	default:
		return false
	}
}

// isAside reports whether a call neither gives nor takes a lease.
func (c *call) isAside() bool {
	return c.path == forgetPath || c.path == cancelPath || c.path == findPath
}

// take removes a happening from the agenda.
func (w *World) take(s *scheduled) *World {
	i := slices.Index(w.agenda.all, s)
	w.agenda.all = slices.Delete(w.agenda.all, i, i+1)
	return w
}

// forgetStale drops happenings that would have no effect.
func (w *smallWorld) forgetStale() {
	w.agenda.all = slices.DeleteFunc(w.agenda.all, func(s *scheduled) bool {
		if s.to != nil && s.to.life != s.life {
			return true
		}
		switch h := s.what.(type) {
		case callEnds:
			return h.call.answered || h.err != nil && s.at > w.now && h.call.fate.ignoresLimit
		case tick:
			return h.wake != h.p.wakes
		case runReturns:
			return h.run.returned
		case resumes:
			return h.p.life != h.life
		}
		return false
	})
}
