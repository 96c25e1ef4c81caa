package management

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mongodb/amboy/internal/presence"
	"github.com/mongodb/amboy/queue/driver"
)

const (
	// namesAtOnce is the number of queues that are read at once for a filter by a part of the
	// name, and maxNames the largest number that is read for one page.
	namesAtOnce = 1000
	maxNames    = 10_000
)

// Validate returns an *InvalidArgumentError for each field that is not valid, joined.
func (f QueueFilter) Validate() error {
	return errors.Join(validateText("name", f.Name), validateValues("queues", f.Queues, true))
}

// matches reports whether a queue has the part of the name.
func (f QueueFilter) matches(name string) bool {
	return strings.Contains(strings.ToLower(name), strings.ToLower(f.Name))
}

func (i *inspector) FindQueues(ctx context.Context, filter QueueFilter, page PageRequest) (QueuePage, error) {
	limit, errLimit := page.limit()
	var errOrder error
	if page.Newest {
		errOrder = invalid("newest", "true", "must be false, because queues are ordered by name")
	}
	if err := i.check(filter.Validate(), errLimit, errOrder); err != nil {
		return QueuePage{}, fmt.Errorf("listing queues: %w", err)
	}
	found, err := i.findQueues(ctx, filter, page.Cursor, limit)
	if err != nil {
		return QueuePage{}, fmt.Errorf("listing queues: %w", err)
	}
	return found, nil
}

func (i *inspector) findQueues(ctx context.Context, filter QueueFilter, cursor string, limit int) (QueuePage, error) {
	names, err := i.resolveQueues(filter.Queues)
	if err != nil {
		return QueuePage{}, err
	}
	list, err := listDigest("queues", filter)
	if err != nil {
		return QueuePage{}, err
	}
	from, err := i.decodeCursor(ctx, list, cursor)
	if err != nil {
		return QueuePage{}, err
	}
	name, err := base64.RawURLEncoding.DecodeString(from) // names may be any bytes
	if err != nil {
		return QueuePage{}, badCursor(cursor)
	}
	var infos []driver.QueueInfo
	var next string
	if len(names) > 0 {
		infos, next, err = i.namedInfos(ctx, filter, names, string(name), limit)
	} else {
		infos, next, err = i.storedInfos(ctx, filter, string(name), limit)
	}
	if err != nil {
		return QueuePage{}, err
	}
	queues, err := i.describeQueues(ctx, infos)
	if err != nil {
		return QueuePage{}, err
	}
	next, err = i.encodeCursor(ctx, list, base64.RawURLEncoding.EncodeToString([]byte(next)))
	return QueuePage{Queues: queues, Next: next}, err
}

// storedInfos returns a page of the queues that a filter selects, and the name with which the
// next page begins; an empty one on the last page.
func (i *inspector) storedInfos(ctx context.Context, filter QueueFilter, from string, limit int) (found []driver.QueueInfo, next string, err error) {
	atOnce := limit + 1
	if filter.Name != "" {
		atOnce = namesAtOnce
	}
	for read := 0; ; read += atOnce {
		if read >= maxNames {
			return found, from, nil
		}
		infos, err := i.store.QueueInfos(ctx, driver.QueueRequest{From: from, Limit: atOnce})
		if err != nil {
			return nil, "", err
		}
		for _, info := range infos {
			if !filter.matches(info.Name) {
				continue
			}
			if len(found) == limit {
				return found, driver.NextName(found[limit-1].Name), nil
			}
			found = append(found, info)
		}
		if len(infos) < atOnce {
			return found, "", nil
		}
		from = driver.NextName(infos[len(infos)-1].Name)
	}
}

// namedInfos is storedInfos for queues whose names are given.
func (i *inspector) namedInfos(ctx context.Context, filter QueueFilter, names []string, from string, limit int) (found []driver.QueueInfo, next string, err error) {
	for _, name := range slices.Sorted(slices.Values(names)) {
		if name < from || !filter.matches(name) {
			continue
		}
		if len(found) == limit {
			return found, driver.NextName(found[limit-1].Name), nil
		}
		err := i.checkQueueExists(ctx, name)
		if errors.Is(err, ErrUnknownQueue) {
			continue
		}
		if err != nil {
			return nil, "", err
		}
		info, err := i.info(ctx, name)
		if err != nil {
			return nil, "", err
		}
		found = append(found, info)
	}
	return found, "", nil
}

// describeQueues adds to the queues of a page, which are sorted, what is not in their counts.
func (i *inspector) describeQueues(ctx context.Context, infos []driver.QueueInfo) ([]Queue, error) {
	queues := make([]Queue, len(infos))
	if len(infos) == 0 {
		return queues, nil
	}
	workers, err := i.workersFrom(ctx, infos[0].Name, infos[len(infos)-1].Name)
	if err != nil {
		return nil, err
	}
	for n, info := range infos {
		queues[n] = queueOf(info, workers[info.Name])
	}
	if err := i.setOldest(ctx, queues, infos); err != nil {
		return nil, err
	}
	return queues, i.setUnknown(ctx, queues)
}

// workersFrom returns the numbers of workers that were set for queues from a first to a last
// name, by name.
func (i *inspector) workersFrom(ctx context.Context, first, last string) (map[string]int, error) {
	set := map[string]int{}
	for note, err := range i.notes(ctx, presence.WorkersKind, presence.WorkersKey(first)) {
		switch {
		case err != nil:
			return nil, err
		case note.Key > presence.WorkersKey(last):
			return set, nil
		}
		name, n, err := presence.WorkersOf(note)
		if err != nil {
			logUnreadableNote(ctx, note, err)
			continue
		}
		set[name] = n
	}
	return set, nil
}

func (i *inspector) SumQueues(ctx context.Context) (QueueTotals, error) {
	if err := i.check(); err != nil {
		return QueueTotals{}, fmt.Errorf("adding up queues: %w", err)
	}
	totals, err := i.sumQueues(ctx)
	if err != nil {
		return QueueTotals{}, fmt.Errorf("adding up queues: %w", err)
	}
	return totals, nil
}

func (i *inspector) sumQueues(ctx context.Context) (QueueTotals, error) {
	var sum driver.QueueTotals
	var err error
	if allowed := i.store.Queues(); len(allowed) > 0 {
		var infos []driver.QueueInfo
		infos, err = i.infos(ctx)
		for _, info := range infos {
			sum.Add(info, MaxBusiest)
		}
	} else {
		sum, err = i.store.Admin().SumQueues(ctx, MaxBusiest)
	}
	if err != nil {
		return QueueTotals{}, err
	}
	order := make(map[string]int, len(sum.Busiest))
	for n, info := range sum.Busiest {
		order[info.Name] = n
	}
	slices.SortFunc(sum.Busiest, func(a, b driver.QueueInfo) int { return strings.Compare(a.Name, b.Name) })
	busiest, err := i.describeQueues(ctx, sum.Busiest)
	slices.SortFunc(busiest, func(a, b Queue) int { return order[a.Name] - order[b.Name] })
	return QueueTotals{Queues: sum.Queues, Counts: countsOf(sum.Stats), Busiest: busiest}, err
}
