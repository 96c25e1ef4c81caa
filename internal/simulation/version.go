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

// setVersions has the first lives of the processes run the old version, but for the last:
// at all times there is one that runs the new version.
func (w *World) setVersions() {
	for i, p := range w.processes {
		p.isNew = !w.settings.rollout || i == len(w.processes)-1
	}
}

// replaces changes the version that a process is to run from now on: to the new one most
// often, and back now and then.
func (p *process) replaces() {
	p.isNew = !p.w.settings.rollout || p.index == len(p.w.processes)-1 || !p.w.oneIn(4)
}

// registers lets a process register the new type.
type registers struct {
	p    *process
	life int
}

func (r registers) happen(*World) {
	if r.p.life == r.life && !r.p.isNew {
		r.p.register()
	}
}

// register has a process of the old version know the new type without another start.
func (p *process) register() {
	p.w.log(Event{Process: p.index, Kind: registered})
	p.step(core.Tick{}) // what is due comes first, and must not be judged by what follows
	p.isNew, p.unknown = true, nil
	p.step(core.Registered{})
}

// leave hands back a run of a task that the process does not know. From then on it must
// not claim its kind.
func (r *run) leave() {
	r.p.step(core.Tick{}) // as above
	kind := driver.KindOf(r.Record)
	if !slices.Contains(r.p.unknown, kind) {
		r.p.unknown = append(r.p.unknown, kind)
	}
	r.endWith(core.End{HandBack: &driver.HandBack{}, Unknown: true})
}

// checkUnknown has nothing claimed that the process is known not to know, and all that it
// may know.
func (p *process) checkUnknown(do core.Claim) {
	if len(do.Except) != len(p.unknown) {
		p.w.violate(CoreRule, "", "process %d claims all but %v, and does not know %v", p.index, do.Except, p.unknown)
	}
}
