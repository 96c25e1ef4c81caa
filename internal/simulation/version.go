package simulation

import (
	"slices"

	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

// newType is the type of tasks that the old version of the program does not know.
const newType = "new"

// knows reports whether the process can run a task.
func (p *process) knows(t *Task) bool { return t.Type != newType || p.isNew }

// setVersions makes the first lives of all processes except the last run the old version.
// At all times a process runs the new version.
func (w *World) setVersions() {
	for i, p := range w.processes {
		p.isNew = !w.settings.rollout || i == len(w.processes)-1
	}
}

// replaces changes the version of a process from its next life on: usually to the new
// one, and sometimes back.
func (p *process) replaces() {
	p.isNew = !p.w.settings.rollout || p.index == len(p.w.processes)-1 || !p.w.oneIn(4)
}

// registers is the registration of the new type in a process.
type registers struct {
	p    *process
	life int
}

func (r registers) happen(*World) {
	if r.p.life == r.life && !r.p.isNew {
		r.p.register()
	}
}

// register makes a process of the old version know the new type without a restart.
func (p *process) register() {
	p.w.log(Event{Process: p.index, Kind: registered})
	p.step(core.Tick{}) // what is due comes first, and must be checked before the change
	p.isNew, p.unknown = true, nil
	p.step(core.Registered{})
}

// leave hands back a run whose task the process does not know. From then on the process
// must not claim its kind.
func (r *run) leave() {
	r.p.step(core.Tick{}) // as above
	kind := driver.KindOf(r.Record)
	if !slices.Contains(r.p.unknown, kind) {
		r.p.unknown = append(r.p.unknown, kind)
	}
	r.endWith(core.End{HandBack: &driver.HandBack{}, Unknown: true})
}

// checkUnknown checks that a claim excludes exactly the kinds that the process has met
// and does not know.
func (p *process) checkUnknown(do core.Claim) {
	if len(do.Except) != len(p.unknown) {
		p.w.violate(CoreRule, "", "process %d claims all kinds except %v, but does not know %v", p.index, do.Except, p.unknown)
	}
}
