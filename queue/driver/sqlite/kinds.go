package sqlite

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/mongodb/amboy/queue/driver"
)

// kindOf is a kind as the column of that name has it.
func kindOf(k driver.Kind) string {
	return k.Type + "\x1f" + strconv.Itoa(k.Version) + "\x1f" + managerText(k)
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
	left := make(map[string]bool, len(req.Except))
	for _, k := range req.Except {
		left[kindOf(k)] = true
	}
	found := 0
	for _, w := range all {
		if most := min(w.most(), req.Limit); most > 0 && found < req.Limit {
			if err := c.findEligibleOf(w, left, most); err != nil {
				return err
			}
		}
		w.ready = len(w.eligible)
		found += min(w.ready, 1)
	}
	return nil
}

// findEligibleOf merges the first records of each kind of a queue.
func (c *changes) findEligibleOf(w *work, left map[string]bool, most int) error {
	var kinds []string
	err := c.query(kindsOf, func(r *row) error {
		if kind := r.text(); !left[kind] {
			kinds = append(kinds, kind)
		}
		return nil
	}, w.key)
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		err = c.query(readyOfKind, func(r *row) error {
			w.eligible = append(w.eligible, candidate{r.integer(), r.int()})
			return nil
		}, w.key, kind, most)
		if err != nil {
			return err
		}
	}
	slices.SortFunc(w.eligible, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.seq, b.seq))
	})
	return nil
}
