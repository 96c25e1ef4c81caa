package workq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue/driver"
)

// inspect answers the command inspect. args are its words.
func (c *conn) inspect(args []string) ([]byte, error) {
	s := c.server
	words := map[string]int{"job": 2, "jobs": 4, "scheduled-jobs": 4, "queue": 2, "queues": 3, "server": 1}
	want, known := words[args[0]]
	switch {
	case !known:
		return nil, unknownCommand
	case len(args) != want:
		return nil, invalidArgs
	}
	if args[0] != "server" && args[0] != "job" && !c.lists {
		waiting, cancel := context.WithTimeout(s.conns.Working(), callLimit)
		defer cancel()
		if err := s.listing.Acquire(waiting, 1); err != nil {
			return nil, err
		}
		c.lists = true // until the answer is written
	}
	ctx, cancel := s.call()
	defer cancel()
	switch args[0] {
	case "server":
		return s.inspectServer(), nil
	case "job":
		return s.inspectJob(ctx, args[1])
	case "queue":
		return s.inspectQueue(ctx, args[1])
	case "queues":
		return s.inspectQueues(ctx, args[1], args[2])
	default:
		return s.inspectJobs(ctx, args[0] == "scheduled-jobs", args[1], args[2], args[3])
	}
}

// seconds is the form of the times that inspect shows.
func seconds(t time.Time) string { return t.UTC().Format(timeForm) }

func (s *Server) inspectServer() []byte {
	return fmt.Appendf(nil, "+OK 1\r\nserver 3\r\nactive-clients %d\r\nevicted-jobs %d\r\nstarted %s\r\n",
		s.conns.Connections(), s.evicted.Load(), seconds(s.started))
}

func (s *Server) inspectJob(ctx context.Context, text string) ([]byte, error) {
	id, _, err := parseID(text)
	if err != nil {
		return nil, err
	}
	job, err := s.jobs.find(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.appendJob(ctx, []byte("+OK 1\r\n"), job)
}

// appendJob appends the entry of a job. If its payload can't be decoded, that is empty, and the entry
// has another key at its end.
func (s *Server) appendJob(ctx context.Context, out []byte, j *stored) ([]byte, error) {
	payload, err := s.jobs.payload(ctx, j)
	isUndecodable := errors.Is(err, outside.ErrUndecodable)
	if isUndecodable {
		s.conns.Log("the payload of a job can't be shown to a workq client", err)
		payload, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	keys := 12
	if !j.scheduled.IsZero() {
		keys++
	}
	if isUndecodable {
		keys++
	}
	out = fmt.Appendf(out, "%s %d\r\nname %s\r\nttr %d\r\nttl %d\r\npayload-size %d\r\npayload ",
		j.JobID(), keys, s.jobs.name(j.prefixed), j.ttr.Milliseconds(), j.ttl.Milliseconds(), len(payload))
	out = append(out, payload...)
	out = fmt.Appendf(out, "\r\nmax-attempts %d\r\nattempts %d\r\nmax-fails %d\r\nfails %d\r\npriority %d\r\nstate %d\r\ncreated %s\r\n",
		j.maxAttempts, j.attempts(), j.maxFails, j.fails, j.Priority, j.state(), seconds(j.TimeInfo.Created))
	if !j.scheduled.IsZero() {
		out = fmt.Appendf(out, "time %s\r\n", seconds(j.scheduled))
	}
	if isUndecodable {
		out = append(out, "payload-error can't be decoded\r\n"...)
	}
	return out, nil
}

// queueNames returns the sorted names of all queues for clients.
func (s *Server) queueNames(ctx context.Context) ([]string, error) {
	infos, err := s.jobs.store.QueueInfos(ctx, driver.QueueRequest{})
	if err != nil {
		return nil, fmt.Errorf("listing the queues: %w", err)
	}
	all := map[string]bool{}
	s.names.addTo(all)
	for _, info := range infos {
		name, ok := strings.CutPrefix(info.Name, s.jobs.prefix)
		if ok && isName(name) {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all)), nil
}

// checkQueue returns notFound for a queue that does not exist.
func (s *Server) checkQueue(ctx context.Context, name string) error {
	names, err := s.queueNames(ctx)
	if err != nil {
		return err
	}
	if _, ok := slices.BinarySearch(names, name); !ok {
		return notFound
	}
	return nil
}

func (s *Server) inspectQueue(ctx context.Context, name string) ([]byte, error) {
	if !isName(name) {
		return nil, invalidName
	}
	if err := s.checkQueue(ctx, name); err != nil {
		return nil, err
	}
	return s.appendQueue(ctx, []byte("+OK 1\r\n"), name)
}

// appendQueue appends the entry of a queue.
func (s *Server) appendQueue(ctx context.Context, out []byte, name string) ([]byte, error) {
	query := s.waiting(name, false)
	ready, err := s.jobs.store.Admin().Count(ctx, query, math.MaxInt32)
	if err != nil {
		return nil, fmt.Errorf("counting the jobs of queue %q: %w", name, err)
	}
	query = s.waiting(name, true)
	scheduled, err := s.jobs.store.Admin().Count(ctx, query, math.MaxInt32)
	if err != nil {
		return nil, fmt.Errorf("counting the scheduled jobs of queue %q: %w", name, err)
	}
	return fmt.Appendf(out, "%s 2\r\nready-len %d\r\nscheduled-len %d\r\n", name, ready, scheduled), nil
}

// waiting selects the ready jobs of a queue, or its scheduled jobs.
func (s *Server) waiting(name string, scheduled bool) driver.Query {
	state := amboy.StatePending
	if scheduled {
		state = amboy.StateScheduled
	}
	return driver.Query{Queues: []string{s.jobs.prefix + name}, Types: []string{JobType}, States: []amboy.JobState{state}, Latest: true}
}

func (s *Server) inspectQueues(ctx context.Context, offset, limit string) ([]byte, error) {
	p, err := parsePage(offset, limit)
	if err != nil {
		return nil, err
	}
	names, err := s.queueNames(ctx)
	if err != nil {
		return nil, err
	}
	names = names[min(p.offset, len(names)):]
	names = names[:min(p.limit, len(names))]
	out := fmt.Appendf(nil, "+OK %d\r\n", len(names))
	for _, name := range names {
		if out, err = s.appendQueue(ctx, out, name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// listed is a job in a list, without its payload.
type listed struct {
	id       string
	priority int
	at       time.Time
	arrival  int
}

// inspectJobs lists the ready jobs of a queue in the order of leasing, or the scheduled ones.
// It reads all of them.
func (s *Server) inspectJobs(ctx context.Context, scheduled bool, name, offset, limit string) ([]byte, error) {
	if !isName(name) {
		return nil, invalidName
	}
	p, err := parsePage(offset, limit)
	if err != nil {
		return nil, err
	}
	err = s.checkQueue(ctx, name)
	if err != nil {
		return nil, err
	}
	list, err := s.firstJobs(ctx, s.waiting(name, scheduled), p.offset+p.limit)
	if err != nil {
		return nil, err
	}
	var entries []byte
	n := 0
	for _, l := range list[min(p.offset, len(list)):] {
		job, err := s.jobs.get(ctx, s.jobs.prefix+name, l.id)
		if amboy.IsJobNotFoundError(err) {
			continue // it has vanished meanwhile
		}
		if err != nil {
			return nil, err
		}
		if entries, err = s.appendJob(ctx, entries, job); err != nil {
			return nil, err
		}
		n++
	}
	return append(fmt.Appendf(nil, "+OK %d\r\n", n), entries...), nil
}

// pageOfList is the number of jobs that are read at a time for a list.
const pageOfList = 100

// firstJobs returns the first jobs of a list, up to most of them.
func (s *Server) firstJobs(ctx context.Context, query driver.Query, most int) (list []listed, err error) {
	page, now := driver.PageRequest{Limit: pageOfList}, time.Now()
	for arrival := 0; ; {
		found, err := s.jobs.store.Admin().Find(ctx, query, page)
		if err != nil {
			return nil, fmt.Errorf("listing the jobs of queue %q: %w", query.Queues[0], err)
		}
		for _, r := range found.Records {
			if j, ok := s.jobs.of(r); ok && !j.gone(now) {
				arrival++
				list = append(list, listed{id: j.JobID(), priority: j.Priority, at: j.TimeInfo.WaitUntil, arrival: arrival})
			}
		}
		if len(list) > 2*most+pageOfList || found.Next == "" {
			slices.SortFunc(list, func(a, b listed) int { return before(a, b, query.States[0] == amboy.StateScheduled) })
			list = list[:min(most, len(list))]
		}
		if found.Next == "" {
			return list, nil
		}
		page.After = found.Next
	}
}

// before is the order of a list: by priority, then scheduled jobs by their time, then by
// arrival.
func before(a, b listed, scheduled bool) int {
	byTime := 0
	if scheduled {
		byTime = a.at.Compare(b.at)
	}
	return cmp.Or(cmp.Compare(b.priority, a.priority), byTime, cmp.Compare(a.arrival, b.arrival))
}
