package sqlite

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// kindOf returns a kind as it is encoded in the column kind.
func kindOf(k driver.Kind) string {
	return k.Type + "\x1f" + strconv.Itoa(k.Version) + "\x1f" + managerText(k)
}

// managerText returns the stored form of the dependency manager of a kind; empty for the
// manager that every process knows.
func managerText(k driver.Kind) string {
	if k.Manager == "" {
		return ""
	}
	return strconv.Quote(k.Manager) + "/" + strconv.Itoa(k.ManagerVersion)
}

// typeOfKind returns the job type of a kind that is encoded as kindOf does.
func typeOfKind(kind string) string {
	for range 2 { // the version, and the manager, whose text has no such byte
		kind = kind[:max(0, strings.LastIndexByte(kind, 0x1f))]
	}
	return kind
}

func managerOf(r *driver.Record) string { return managerText(driver.KindOf(r)) }

// candidate is a ready record.
type candidate struct {
	seq      int64
	priority int
	jobType  string
}

// chosen returns the numbers of the records within a queue's share, for json_each.
func (w *work) chosen() string {
	numbers := make([]int64, min(w.share, len(w.eligible)))
	for i := range numbers {
		numbers[i] = w.eligible[i].seq
	}
	text, err := json.Marshal(numbers)
	if err != nil {
		return "[]" // impossible: integers can always be encoded
	}
	return string(text)
}

// findEligible leaves out ready records of kinds that a claim excludes, of types that have no room,
// and those behind many that have expired. It stops when it has found as many queues with other
// records as the claim's limit: the other queues would get none.
func (c *changes) findEligible(all []*work, req driver.ClaimRequest) error {
	left := make(map[string]bool, len(req.Except))
	for _, k := range req.Except {
		left[kindOf(k)] = true
	}
	found := 0
	for _, w := range all {
		byKind := len(left) > 0 || w.room != nil
		w.isPicked = byKind || w.expiredLeft
		if w.isPicked {
			var err error
			switch most := min(w.claimable(), req.Limit); {
			case most <= 0 || found >= req.Limit:
			case byKind:
				err = c.findEligibleOf(w, left, most)
			default:
				err = c.findUnexpired(w, req, most)
			}
			if err != nil {
				return err
			}
			w.ready = len(w.eligible)
		}
		found += min(w.ready, 1)
	}
	return nil
}

// findUnexpired finds the first ready records of a queue, and reads at most timedAtOnce expired ones
// before them: a claim that read all of them would keep writers waiting.
func (c *changes) findUnexpired(w *work, req driver.ClaimRequest, most int) error {
	return c.query(readUnexpired, func(r *row) error {
		w.eligible = append(w.eligible, candidate{seq: r.integer(), priority: r.int()})
		_ = r.damage() // of the priority: the claim parks the record
		return nil
	}, w.key, timedAtOnce+most, table.InstantOf(req.Now), most)
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
		jobType := typeOfKind(kind)
		err = c.query(readyOfKind, func(r *row) error {
			w.eligible = append(w.eligible, candidate{r.integer(), r.int(), jobType})
			_ = r.damage() // of the priority: the claim parks the record
			return nil
		}, w.key, kind, beyond(min(most, w.room.Left(jobType))))
		if err != nil {
			return err
		}
	}
	slices.SortFunc(w.eligible, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.seq, b.seq))
	})
	if w.room != nil {
		w.keepWithinRoom()
	}
	return nil
}

// beyond is the number of records to read if n may start: one more tells that there are others.
func beyond(n int) int { return n + 1 }

// keepWithinRoom leaves out the eligible records that exceed the limits of their types.
func (w *work) keepWithinRoom() {
	chosen := map[string]int{}
	w.eligible = slices.DeleteFunc(w.eligible, func(c candidate) bool {
		if chosen[c.jobType] >= w.room.Left(c.jobType) {
			w.room.Refuse(c.jobType)
			return true
		}
		chosen[c.jobType]++
		return false
	})
}
