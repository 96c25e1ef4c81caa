// Package inspectortest makes the answers of inspectors that tests invent.
package inspectortest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mongodb/amboy/management"
)

// Page returns a page of the queues that the filter selects, in their order. A cursor is the
// position of the next queue. The error is not nil if the cursor is not a position.
func Page(queues []management.Queue, filter management.QueueFilter, page management.PageRequest) (management.QueuePage, error) {
	from, err := strconv.Atoi(cmp.Or(page.Cursor, "0"))
	if err != nil {
		return management.QueuePage{}, fmt.Errorf("invalid cursor: %w", err)
	}
	selected := slices.DeleteFunc(slices.Clone(queues), func(q management.Queue) bool {
		return !strings.Contains(strings.ToLower(q.Name), strings.ToLower(filter.Name)) || (len(filter.Queues) > 0 && !slices.Contains(filter.Queues, q.Name))
	})
	selected = selected[min(from, len(selected)):]
	if page.Limit > 0 && page.Limit < len(selected) {
		return management.QueuePage{Queues: selected[:page.Limit], Next: strconv.Itoa(from + page.Limit)}, nil
	}
	return management.QueuePage{Queues: selected}, nil
}

// Sum returns the totals of the queues, all of which are the busiest.
func Sum(queues []management.Queue) management.QueueTotals {
	totals := management.QueueTotals{Queues: len(queues), Busiest: queues}
	for _, q := range queues {
		totals.Counts.Pending += q.Counts.Pending
		totals.Counts.Blocked += q.Counts.Blocked
		totals.Counts.Running += q.Counts.Running
		totals.Counts.Retrying += q.Counts.Retrying
		totals.Counts.Completed += q.Counts.Completed
		totals.Counts.Total += q.Counts.Total
	}
	return totals
}

// ErrorGroups returns a group for each of the jobs that has an error.
func ErrorGroups(jobs []management.JobSummary) []management.ErrorGroup {
	groups := []management.ErrorGroup{}
	for _, j := range jobs {
		if j.Error != "" {
			groups = append(groups, management.ErrorGroup{
				Message: management.FoldError(j.Error), Jobs: 1, Types: []string{j.Type}, First: j.Started, Last: j.Ended, Sample: j,
			})
		}
	}
	return groups
}
