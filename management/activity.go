package management

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/amboy/internal/activity"
)

// ActivityRequest requests the activity of queues.
type ActivityRequest struct {
	// Queues and Types select by queue and job type; empty selects all.
	Queues []string `json:"queues,omitempty"`
	Types  []string `json:"types,omitempty"`
	// Last is the length of the period up to now, from a minute to MaxActivity. Default:
	// an hour. Up to two hours are reported by the minute, up to 48 hours by the hour, and longer
	// periods by six hours.
	Last time.Duration `json:"last,omitempty"`
}

// MaxActivity is how long activity is kept.
const MaxActivity = 30 * 24 * time.Hour

// Activity is what queues did in a period.
type Activity struct {
	// From is the start of the period, which is the start of its first step, and To its end,
	// exclusive.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Step is the length of the time between two points, in seconds.
	Step float64 `json:"step"`
	// Points are the sums over all queues and types, one for each step, the oldest first,
	// including steps in which nothing happened.
	Points []ActivityPoint `json:"points"`
	// Rows are the sums over the whole period for each queue and type, ordered by these.
	// If there are more than 1,000, the rows with the fewest attempts are left out.
	Rows []ActivityRow `json:"rows"`
	// Sum is the sum over everything.
	Sum ActivityRow `json:"sum"`
}

// ActivityPoint is what happened in one step.
type ActivityPoint struct {
	Time time.Time `json:"time"`
	// Succeeded and Failed count the jobs that ended for good in the step, and Retried the
	// failed attempts that were followed by another.
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
	Retried   int `json:"retried"`
	// WaitP99 is the 99th percentile of how long the ended attempts had waited, in seconds.
	WaitP99 float64 `json:"wait_p99"`
	// Backlog is what was waiting in the step. It is missing if nothing is known: no process was
	// alive, the queues in memory had no jobs, or the request names types.
	Backlog *Backlog `json:"backlog,omitempty"`
}

// Backlog counts the jobs that have not ended. One process counts them once a minute for all
// processes on a store. Each field is the largest of the counts in a step.
//
// In a request for some queues each field is added up over these queues. The jobs of a queue are
// known while it is one of the 100 queues of the store with the most such jobs; otherwise it counts
// as empty, and the step has no backlog if none of the queues is known. In a request for all queues
// all jobs are counted.
type Backlog struct {
	// Ready counts the jobs that could start.
	Ready int `json:"ready"`
	// Waiting counts the jobs that are scheduled, blocked or parked, or await a retry.
	Waiting int `json:"waiting"`
	// Running counts the running jobs.
	Running int `json:"running"`
	// OldestReady is for how long the oldest ready job could have started already, in seconds;
	// 0 if no job was ready.
	OldestReady float64 `json:"oldest_ready"`
}

// ActivityRow is what happened to the jobs of one type in one queue. If a process runs too
// many types, some of them are counted together, with an empty Type.
type ActivityRow struct {
	Queue string `json:"queue"`
	Type  string `json:"type"`
	// Succeeded and Failed ended for good. Canceled and expired jobs count as Failed.
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
	// Retried counts the failed attempts that were followed by another.
	Retried int `json:"retried"`
	// PerSecond is the number of ended attempts per second.
	PerSecond float64 `json:"per_second"`
	// Current is the number of attempts per second that ended in the last minute, whatever the
	// period. Processes report every ten seconds.
	Current float64 `json:"current"`
	// FailureRate is the fraction of the ended attempts that failed, from 0 to 1.
	FailureRate float64 `json:"failure_rate"`
	// Wait is how long the ended attempts had waited since they could start, and Run how
	// long they ran.
	Wait Percentiles `json:"wait"`
	Run  Percentiles `json:"run"`
}

// Percentiles are durations in seconds, exact to a few percent.
type Percentiles struct {
	// P50, P90 and P99 are the times that 50, 90 and 99 percent of the attempts did not exceed,
	// and Max is the longest, in seconds.
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

const (
	// defaultActivity is the default of ActivityRequest.Last.
	defaultActivity = time.Hour
	// maxInDetail is the longest time that is reported by the minute.
	maxInDetail = 2 * time.Hour
	// maxHourly is the longest time that is reported by the hour.
	maxHourly = 48 * time.Hour
	// maxActivityRows is the maximum number of rows. The rows with the most attempts are kept.
	maxActivityRows = 1000
)

// Validate returns an *InvalidArgumentError for each field that is not valid, joined.
func (r ActivityRequest) Validate() error {
	var errLast error
	if r.Last != 0 && (r.Last < time.Minute || r.Last > MaxActivity) {
		errLast = invalid("last", r.Last.String(), fmt.Sprintf("must be from %s to %s, or 0 for %s", time.Minute, MaxActivity, defaultActivity))
	}
	return errors.Join(validateValues("queues", r.Queues, true), validateValues("types", r.Types, false), errLast)
}

func (i *inspector) Activity(ctx context.Context, req ActivityRequest) (Activity, error) {
	if err := i.check(req.Validate()); err != nil {
		return Activity{}, fmt.Errorf("reading the activity: %w", err)
	}
	found, err := i.activity(ctx, req)
	if err != nil {
		return Activity{}, fmt.Errorf("reading the activity: %w", err)
	}
	return found, nil
}

func (i *inspector) activity(ctx context.Context, req ActivityRequest) (Activity, error) {
	queues, err := i.resolveQueues(req.Queues)
	if err != nil {
		return Activity{}, err
	}
	err = i.store.Refresh(ctx)
	if err != nil {
		return Activity{}, err
	}
	s := newActivitySum(cmp.Or(req.Last, defaultActivity), i.store.Now())
	err = i.eachRow(ctx, s.kind, s.from, queues, req.Types, s.add)
	if err == nil && s.kind != activity.MinuteKind {
		err = i.eachRow(ctx, activity.MinuteKind, s.now.Truncate(time.Minute).Add(-time.Minute), queues, req.Types, s.addCurrent)
	}
	if err == nil && len(req.Types) == 0 {
		err = i.eachBacklog(ctx, s, queues)
	}
	if err != nil {
		return Activity{}, err
	}
	return s.result(), nil
}

// eachRow calls visit for the stored rows of some queues and types since a time.
func (i *inspector) eachRow(ctx context.Context, kind string, from time.Time, queues, types []string, visit func(time.Time, activity.Row)) error {
	for note, err := range i.notes(ctx, kind, activity.KeyOf(from)) {
		if err != nil {
			return err
		}
		bucket, err := activity.Decode(note.Value)
		if err != nil {
			logUnreadableNote(ctx, note, err)
			continue
		}
		for _, row := range bucket.Rows {
			if isNamed(queues, row.Queue) && isNamed(types, row.Type) {
				visit(bucket.Start, row)
			}
		}
	}
	return nil
}

// eachBacklog adds the stored backlogs of some queues; of all if none are named.
func (i *inspector) eachBacklog(ctx context.Context, s *activitySum, queues []string) error {
	for note, err := range i.notes(ctx, activity.BacklogKind(s.size), activity.KeyOf(s.from)) {
		if err != nil {
			return err
		}
		backlogs, err := activity.DecodeBacklogs(note.Value)
		if err != nil {
			logUnreadableNote(ctx, note, err)
			continue
		}
		backlog, known := backlogs.Of(queues)
		if known {
			s.addBacklog(backlogs.Start, backlog)
		}
		if s.size == activity.Minute && backlogs.Sum == (activity.Backlog{}) {
			for after := time.Minute; after < activity.IdleBacklogs && !backlogs.Start.Add(after).After(s.now); after += time.Minute {
				s.addBacklog(backlogs.Start.Add(after), backlog)
			}
		}
	}
	return nil
}

// isNamed reports whether a list contains a name. An empty list contains all names.
func isNamed(names []string, name string) bool {
	return len(names) == 0 || slices.Contains(names, name)
}

// activitySum adds up the activity of a span of time.
type activitySum struct {
	kind     string
	from, to time.Time
	now      time.Time
	size     activity.Step
	step     time.Duration
	// seconds is how much of the span has passed.
	seconds float64
	points  []ActivityPoint
	waits   []activity.Histogram // of the points
	rows    map[activityKey]*activity.Row
	sum     activity.Row
	// current counts the attempts of the last minute. Those of the minute before the running one
	// count in part.
	current map[activityKey]float64
}

type activityKey struct{ queue, jobType string }

// newActivitySum returns the sum of the time up to now, in whole steps.
func newActivitySum(last time.Duration, now time.Time) *activitySum {
	s := &activitySum{
		kind: activity.MinuteKind, step: time.Minute, now: now.UTC(),
		rows: map[activityKey]*activity.Row{}, current: map[activityKey]float64{},
	}
	switch {
	case last > maxHourly:
		s.kind, s.size, s.step = activity.SixHoursKind, activity.SixHours, 6*time.Hour
	case last > maxInDetail:
		s.kind, s.size, s.step = activity.HourKind, activity.Hour, time.Hour
	}
	steps := int((last + s.step - 1) / s.step)
	s.to = now.UTC().Truncate(s.step).Add(s.step)
	s.from = s.to.Add(-time.Duration(steps) * s.step)
	s.seconds = max(now.Sub(s.from).Seconds(), 1) // the step may just have begun
	s.waits = make([]activity.Histogram, steps)
	for n := range steps {
		s.points = append(s.points, ActivityPoint{Time: s.from.Add(time.Duration(n) * s.step)})
	}
	return s
}

func (s *activitySum) add(start time.Time, row activity.Row) {
	n := int(start.Sub(s.from) / s.step)
	if start.Before(s.from) || n >= len(s.points) {
		return // the clock of its process is wrong
	}
	point := &s.points[n]
	point.Succeeded += row.Succeeded
	point.Failed += row.Failed
	point.Retried += row.Retried
	s.waits[n].Merge(row.Wait)
	s.sum.Add(row)
	key := activityKey{row.Queue, row.Type}
	if s.rows[key] == nil {
		s.rows[key] = &activity.Row{Queue: row.Queue, Type: row.Type}
	}
	s.rows[key].Add(row)
	if s.kind == activity.MinuteKind {
		s.addCurrent(start, row)
	}
}

// addBacklog adds the backlog of queues in the step that starts at a time.
func (s *activitySum) addBacklog(start time.Time, b activity.Backlog) {
	n := int(start.Sub(s.from) / s.step)
	if start.Before(s.from) || n >= len(s.points) {
		return // the clock of its process is wrong
	}
	point := &s.points[n]
	if point.Backlog == nil {
		point.Backlog = &Backlog{}
	}
	point.Backlog.Ready += b.Ready
	point.Backlog.Waiting += b.Waiting
	point.Backlog.Running += b.Running
	point.Backlog.OldestReady = max(point.Backlog.OldestReady, b.Oldest.Seconds())
}

// addCurrent adds a row of a minute to the attempts of the last minute.
func (s *activitySum) addCurrent(start time.Time, row activity.Row) {
	attempts, minute := float64(row.Succeeded+row.Failed+row.Retried), s.now.Truncate(time.Minute)
	switch {
	case start.Equal(minute):
	case start.Equal(minute.Add(-time.Minute)):
		attempts *= 1 - s.now.Sub(minute).Minutes()
	default:
		return
	}
	s.current[activityKey{row.Queue, row.Type}] += attempts
}

func (s *activitySum) result() Activity {
	for n := range s.points {
		s.points[n].WaitP99 = s.waits[n].Percentile(99).Seconds()
	}
	a := Activity{From: s.from, To: s.to, Step: s.step.Seconds(), Points: s.points, Rows: []ActivityRow{}, Sum: s.row(&s.sum)}
	for key, row := range s.rows {
		r := s.row(row)
		r.Current = s.current[key] / time.Minute.Seconds()
		a.Rows = append(a.Rows, r)
	}
	for _, attempts := range s.current {
		a.Sum.Current += attempts / time.Minute.Seconds()
	}
	if len(a.Rows) > maxActivityRows {
		slices.SortFunc(a.Rows, func(x, y ActivityRow) int { return cmp.Compare(y.attempts(), x.attempts()) })
		a.Rows = a.Rows[:maxActivityRows]
	}
	slices.SortFunc(a.Rows, func(x, y ActivityRow) int {
		return cmp.Or(cmp.Compare(x.Queue, y.Queue), cmp.Compare(x.Type, y.Type))
	})
	return a
}

// attempts counts the attempts that ended.
func (r ActivityRow) attempts() int { return r.Succeeded + r.Failed + r.Retried }

func (s *activitySum) row(row *activity.Row) ActivityRow {
	r := ActivityRow{
		Queue: row.Queue, Type: row.Type, Succeeded: row.Succeeded, Failed: row.Failed, Retried: row.Retried,
		Wait: percentilesOf(&row.Wait), Run: percentilesOf(&row.Run),
	}
	if attempts := r.attempts(); attempts > 0 {
		r.PerSecond = float64(attempts) / s.seconds
		r.FailureRate = float64(row.Failed+row.Retried) / float64(attempts)
	}
	return r
}

func percentilesOf(h *activity.Histogram) Percentiles {
	return Percentiles{
		P50: h.Percentile(50).Seconds(),
		P90: h.Percentile(90).Seconds(),
		P99: h.Percentile(99).Seconds(),
		Max: h.Max().Seconds(),
	}
}
