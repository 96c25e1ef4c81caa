package management

// inRounds divides the jobs of a batch, of which the oldest is the first, so that each is acted on
// after those that it depends on. A store acts on the jobs of one call from the oldest to the
// newest. A job is usually newer than those that it depends on, so there is one round. It is older
// if these were retried, which made them new.
func inRounds(jobs []target) [][]target {
	o := ordering{jobs: jobs, index: make(map[string]int, len(jobs)), round: make([]int, len(jobs))}
	for n, job := range jobs {
		o.index[job.id] = n
	}
	var rounds [][]target
	for n, job := range jobs {
		for o.roundOf(n) > len(rounds) {
			rounds = append(rounds, nil)
		}
		round := &rounds[o.round[n]-1]
		*round = append(*round, job)
	}
	return rounds
}

// ordering finds the rounds of jobs.
type ordering struct {
	jobs  []target
	index map[string]int // of each job, by its ID
	round []int          // of each job, from 1; 0 if it is not known
}

// roundOf returns the round of a job, which is not before those of the jobs that it depends on, and
// after the rounds of those among them that are newer. Jobs that were put under the IDs of removed
// ones may depend on each other in a circle, in which one edge does not count.
func (o *ordering) roundOf(n int) int {
	if o.round[n] > 0 {
		return o.round[n]
	}
	o.round[n] = 1
	last := 1
	for _, edge := range o.jobs[n].edges {
		on, selected := o.index[edge]
		if !selected {
			continue
		}
		round := o.roundOf(on)
		if on > n {
			round++
		}
		last = max(last, round)
	}
	o.round[n] = last
	return last
}
