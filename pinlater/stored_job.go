package pinlater

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/pinlater/wire"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// What a job has besides the properties of all jobs is kept in its metadata.
const (
	// statusKey is the custom status; absent for an empty one.
	statusKey = "pinlater-status"
	// createdKey is when the job was put, which its later attempts do not have.
	createdKey = "pinlater-created"
	// allowedKey is the number of attempts allowed, if it is not the job's own.
	allowedKey = "pinlater-allowed"
	// checkpointKey is a checkpoint.
	checkpointKey = "pinlater-checkpoint"
)

// firstPriority is the priority of most jobs. They have no tag, which a store would have to
// keep for each.
const firstPriority = 1

// priorityTag is the prefix of the tag with the priority of a job that has another than the
// first. The priority that queues serve is its negative, and may be changed by an operator.
const priorityTag = "pinlater-p"

func tagOf(priority int) string { return priorityTag + strconv.Itoa(priority) }

// tagsOf returns the tags of a job with a priority.
func tagsOf(priority int) []string {
	if priority == firstPriority {
		return nil
	}
	return []string{tagOf(priority)}
}

// priorityOf returns the priority of a job with tags.
func priorityOf(tags []string) int {
	for _, tag := range tags {
		if text, ok := strings.CutPrefix(tag, priorityTag); ok {
			if p, err := strconv.Atoi(text); err == nil && tag == tagOf(p) {
				return p
			}
		}
	}
	return firstPriority
}

// maxStatus is the maximum length of a custom status, in characters.
const maxStatus = 5000

// textOf returns a text of a client as it is stored. Characters that not all stores can keep
// are replaced.
func textOf(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, string(utf8.RuneError)), "\x00", string(utf8.RuneError))
}

// statusOf returns a custom status of parts, cut to its maximum length.
func statusOf(parts ...string) string {
	text := textOf(strings.Join(parts, ""))
	if len(text) <= maxStatus {
		return text
	}
	n := 0
	for i := range text {
		if n == maxStatus {
			return text[:i]
		}
		n++
	}
	return text
}

// checkpoint is what a checkpoint has set in an attempt.
type checkpoint struct {
	attempt           int
	runAfter, updated time.Time
}

func (c checkpoint) encode() string {
	return fmt.Sprintf("%d:%d:%d", c.attempt, c.runAfter.UnixMilli(), c.updated.UnixMilli())
}

func decodeCheckpoint(text string) (c checkpoint, ok bool) {
	var runAfter, updated int64
	if n, err := fmt.Sscanf(text, "%d:%d:%d", &c.attempt, &runAfter, &updated); err != nil || n != 3 {
		return checkpoint{}, false
	}
	c.runAfter, c.updated = time.UnixMilli(runAfter), time.UnixMilli(updated)
	return c, true
}

// attempts are the numbers of attempts of a job.
type attempts struct{ allowed, remaining int }

// attemptsOf returns the attempts of a job that has not failed. attempt is numbered from 0,
// and maximum is the total number of attempts.
func attemptsOf(attempt, maximum int, metadata map[string]string) attempts {
	a := attempts{allowed: maximum, remaining: maximum - attempt}
	if own, err := strconv.Atoi(metadata[allowedKey]); err == nil {
		a.allowed = own
		if own < 1 && a.remaining == 1 { // stored so by the client; it runs once all the same
			a.remaining = own
		}
	}
	return a
}

// storedJob is a job in the store.
type storedJob struct {
	*driver.Record
	state wire.PinLaterJobState
	// future is true if the job is due later.
	future     bool
	checkpoint *checkpoint
}

// statesOf returns the states of the store for a state of PinLater.
func statesOf(state wire.PinLaterJobState) []amboy.JobState {
	switch state {
	case wire.PinLaterJobState_PENDING:
		return append(currentStates(), futureStates()...)
	case wire.PinLaterJobState_IN_PROGRESS:
		return []amboy.JobState{amboy.StateRunning}
	case wire.PinLaterJobState_SUCCEEDED:
		return []amboy.JobState{amboy.StateSucceeded}
	default:
		return []amboy.JobState{amboy.StateFailed, amboy.StateCanceled, amboy.StateExpired}
	}
}

// currentStates are the states of pending jobs that may be dequeued, and futureStates those
// of jobs that may not.
func currentStates() []amboy.JobState {
	return []amboy.JobState{amboy.StatePending, amboy.StateRetrying}
}

func futureStates() []amboy.JobState {
	return []amboy.JobState{amboy.StateScheduled, amboy.StateBlocked, amboy.StateParked}
}

func newStoredJob(r *driver.Record, now time.Time) *storedJob {
	j := &storedJob{Record: r}
	if c, ok := decodeCheckpoint(r.Metadata[checkpointKey]); ok && c.attempt == r.RetryInfo.CurrentAttempt {
		j.checkpoint = &c
	}
	switch driver.StateOf(r, now) {
	case amboy.StateRunning:
		j.state = wire.PinLaterJobState_IN_PROGRESS
		j.future = j.runAfter().After(now)
	case amboy.StateSucceeded:
		j.state = wire.PinLaterJobState_SUCCEEDED
	case amboy.StateFailed, amboy.StateCanceled, amboy.StateExpired:
		j.state = wire.PinLaterJobState_FAILED
	case amboy.StateScheduled, amboy.StateBlocked, amboy.StateParked:
		j.future = true
	}
	return j
}

// localID returns the local ID, and false for a job that another protocol has put and that
// has none.
func (j *storedJob) localID() (int64, bool) { return localIDOf(j.JobID()) }

func (j *storedJob) priority() int { return priorityOf(j.Tags) }

func (j *storedJob) attempts() attempts {
	maximum := 1
	if j.RetryInfo.Retryable {
		maximum = j.RetryInfo.GetMaxAttempts()
	}
	a := attemptsOf(j.RetryInfo.CurrentAttempt, maximum, j.Metadata)
	if j.state == wire.PinLaterJobState_FAILED {
		a.remaining = 0
	}
	return a
}

func (j *storedJob) created() time.Time {
	if ms, err := strconv.ParseInt(j.Metadata[createdKey], 10, 64); err == nil {
		return time.UnixMilli(ms)
	}
	return j.TimeInfo.Created
}

func (j *storedJob) runAfter() time.Time {
	switch {
	case j.checkpoint != nil:
		return j.checkpoint.runAfter
	case !j.TimeInfo.WaitUntil.IsZero():
		return j.TimeInfo.WaitUntil
	default:
		return j.TimeInfo.Created
	}
}

func (j *storedJob) updated() time.Time {
	latest := j.TimeInfo.Created
	for _, t := range []time.Time{j.Status.ModificationTime, j.TimeInfo.Start, j.TimeInfo.End} {
		if t.After(latest) {
			latest = t
		}
	}
	if j.checkpoint != nil && j.checkpoint.updated.After(latest) {
		latest = j.checkpoint.updated
	}
	return latest
}

// claim returns the claim of a job that has one. A job whose last claim timed out keeps it.
func (j *storedJob) claim() string {
	if j.state == wire.PinLaterJobState_PENDING {
		return ""
	}
	owner := j.Status.Owner
	if lost := j.Status.Interruptions; !isOutside(owner) && lost != nil && len(lost.Latest) > 0 {
		owner = lost.Latest[len(lost.Latest)-1].Owner
	}
	if !isOutside(owner) {
		return ""
	}
	if _, claim, ok := strings.Cut(owner, "/"); ok {
		return claim
	}
	return owner
}

func isOutside(owner string) bool { return strings.HasPrefix(owner, queue.OutsideOwner) }

// describe describes a job of a queue. It returns nil for a job without a local ID.
func (j *storedJob) describe(queueName string, body []byte) *wire.PinLaterJobInfo {
	localID, ok := j.localID()
	if !ok {
		return nil
	}
	a := j.attempts()
	runAfter, updated := j.runAfter().UnixMilli(), j.updated().UnixMilli()
	info := &wire.PinLaterJobInfo{
		JobDescriptor:            descriptor{queue: queueName, priority: j.priority(), localID: localID}.String(),
		JobState:                 j.state,
		AttemptsAllowed:          int32(a.allowed),
		AttemptsRemaining:        int32(a.remaining),
		CustomStatus:             j.Metadata[statusKey],
		CreatedAtTimestampMillis: j.created().UnixMilli(),
		RunAfterTimestampMillis:  &runAfter,
		UpdatedAtTimestampMillis: &updated,
		Body:                     body,
	}
	if claim := j.claim(); claim != "" {
		info.ClaimDescriptor = &claim
	}
	return info
}
