package sqlite

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/mongodb/amboy/queue/driver"
)

// kind is that of a record as its columns have it.
type kind struct {
	jobType string
	version int
	manager string
}

func kindOf(k driver.Kind) kind {
	return kind{k.Type, k.Version, managerText(k)}
}

// managerText is the dependency manager of a kind; empty for the one that every process
// knows. It is stored.
func managerText(k driver.Kind) string {
	if k.Manager == "" {
		return ""
	}
	return strconv.Quote(k.Manager) + "/" + strconv.Itoa(k.ManagerVersion)
}

func managerOf(r *driver.Record) string { return managerText(driver.KindOf(r)) }

// candidate is a record that is ready.
type candidate struct {
	seq      int64
	priority int
}

// chosen lists the records that a queue's share gives, for json_each.
func (w *work) chosen() string {
	numbers := make([]int64, min(w.share, len(w.eligible)))
	for i := range numbers {
		numbers[i] = w.eligible[i].seq
	}
	text, err := json.Marshal(numbers)
	if err != nil {
		return "[]" // which can't be: numbers can be written
	}
	return string(text)
}

// findEligible makes the numbers of ready records those of kinds that a claim does not
// leave out, where it leaves out any. It goes on until as many queues have some as are
// claimed of in one turn: the others would get none.
func (c *changes) findEligible(all []*work, req driver.ClaimRequest) error {
	if len(req.Except) == 0 {
		return nil
	}
	left := make(map[kind]bool, len(req.Except))
	for _, k := range req.Except {
		left[kindOf(k)] = true
	}
	found := 0
	for _, w := range all {
		if most := min(w.most(), req.Limit); most > 0 && found < req.Limit {
			if err := c.findEligibleOf(w, left, instantOf(req.Now), most); err != nil {
				return err
			}
		}
		w.ready = len(w.eligible)
		found += min(w.ready, 1)
	}
	return nil
}

// findEligibleOf merges the first records of each kind of a queue.
func (c *changes) findEligibleOf(w *work, left map[kind]bool, now instant, most int) error {
	for k := (kind{version: math.MinInt}); ; {
		more, err := c.one(nextKind, func(r *row) { k = kind{r.text(), r.int(), r.text()} }, w.key, k.jobType, k.version, k.manager)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if left[k] {
			continue
		}
		err = c.query(readyOfKind, func(r *row) error {
			w.eligible = append(w.eligible, candidate{r.integer(), r.int()})
			return nil
		}, w.key, k.jobType, k.version, k.manager, now, most)
		if err != nil {
			return err
		}
	}
	slices.SortFunc(w.eligible, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.seq, b.seq))
	})
	return nil
}
