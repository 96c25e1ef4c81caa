package simulation

import (
	"context"
	"math/rand/v2"
	"time"
)

// maxQuiet is how long a world may continue after its last fault.
const maxQuiet = 24 * time.Hour

// Run runs the world of a seed to its end or to the first broken promise.
func Run(opts Options) (*Result, error) {
	random := rand.New(rand.NewPCG(opts.Seed, 1))
	w, err := newWorld(randomSettings(opts, random), random, &randomNetwork{})
	if err != nil {
		return nil, err
	}
	w.setVersions()
	for _, p := range w.processes {
		w.after(w.upTo(time.Second), starts{p})
	}
	w.after(time.Second, newWorkload(w, 40+random.IntN(100)))
	w.after(2*time.Second, newFaultPlan(w, opts))
	for !w.isOver() {
		w.step()
	}
	if w.checker.violation == nil {
		w.checkEnd()
	}
	return w.result(), nil
}

// isOver reports whether all jobs have ended and all processes know it, or a promise was
// broken.
func (w *World) isOver() bool {
	if w.checker.violation != nil || w.agenda.Len() == 0 {
		return true
	}
	if !w.faultsEnded {
		return false
	}
	if w.quietFrom > 0 && w.now > w.quietFrom+maxQuiet {
		return true
	}
	return !w.isPutting() && !w.busy() && len(w.checker.Open()) == 0
}

// isPutting reports whether more tasks will be put.
func (w *World) isPutting() bool {
	for _, s := range w.agenda.all {
		if _, ok := s.what.(*workload); ok {
			return true
		}
	}
	return false
}

// checkEnd checks the final state.
func (w *World) checkEnd() {
	w.checker.End(w.now)
	for _, p := range w.processes {
		if p.alive && p.claimed != p.done {
			jobs := []string{}
			for _, r := range p.runs {
				jobs = append(jobs, r.task.ID)
			}
			w.checker.violated(w.now, CoreRule, jobs, "process %d claimed %d records and finished %d", p.index, p.claimed, p.done)
		}
	}
	attempts := map[string]int{}
	for id, j := range w.checker.jobs {
		if j.accepted {
			attempts[w.checker.tasks[id].Queue] += j.attempt + 1
		}
	}
	for _, queue := range w.settings.queues {
		stats, err := w.driver.Stats(context.Background(), queue)
		if err != nil {
			w.violate(CountsWrong, "", "queue %s: %v", queue, err)
		}
		if stats.Total != attempts[queue] || stats.Completed != attempts[queue] || stats.Running+stats.Pending+stats.Retrying+stats.Blocked != 0 {
			w.violate(CountsWrong, "", "queue %s has %d attempts but counts %+v", queue, attempts[queue], stats)
		}
	}
}
