package riverjob

import (
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
)

// record returns a row as a record of our model. Its body is that of a job of a definition, whose
// version is the current one, because River knows no versions.
func (r *row) record() *driver.Record {
	id := strconv.FormatInt(r.id, 10)
	lease := r.lease()
	version, timeout := typeOf(r.kind)
	record := &driver.Record{
		Type: r.kind, Version: version, Group: r.queue,
		Dependency: registry.PlainDependency(amboy.BSON),
		Priority:   priorityOf(r.priority),
		Tags:       r.tags,
		Metadata:   r.ownMetadata(),
		Progress:   r.progress(),
		Result:     r.result(),
		Foreign:    &registry.ForeignProperties{AttemptedBy: r.owners(), UniqueStates: r.statesOfKey()},
		RetryInfo:  amboy.JobRetryInfo{Retryable: true, BaseJobID: id, CurrentAttempt: r.currentAttempt(), MaxAttempts: int(r.maxAttempts)},
		TimeInfo:   amboy.JobTimeInfo{Created: r.createdAt, WaitUntil: r.scheduledAt, End: r.finalizedAt, MaxTime: timeout},
		Status:     amboy.JobStatusInfo{Owner: lease.owner, ModificationCount: lease.count, ModificationTime: r.attemptedAt},
	}
	record.Name = driver.RecordName(r.queue, id, record.RetryInfo)
	if r.args != "" {
		record.Job = registry.NewBody([]byte(`{"args":`+r.args+`}`), true)
	}
	if r.uniqueKey != nil {
		record.UniqueKey, record.UniqueUntil = hex.EncodeToString(r.uniqueKey), r.uniqueUntil()
	}
	for _, e := range r.errors {
		record.Status.Attempts = append(record.Status.Attempts, e.attemptError())
	}
	r.describeState(record)
	return record
}

// describeState sets the part of the status that depends on the state.
func (r *row) describeState(record *driver.Record) {
	status := &record.Status
	if r.state == stateRunning || r.hasEnded() {
		record.TimeInfo.Start = r.attemptedAt
	}
	switch r.state {
	case stateRunning:
		status.InProgress = true
		record.CancelRequested = r.isToCancel()
	case statePending:
		status.Hold, status.Reason = amboy.HoldParked, r.text(keyParked)
	case stateCompleted:
		status.Completed = true
	case stateDiscarded, stateCancelled:
		status.Completed = true
		for _, e := range r.errors {
			if e.Attempt == int(r.attempt) {
				status.Errors = append(status.Errors, e.Error)
			}
		}
		if r.state == stateCancelled {
			status.Outcome = amboy.OutcomeCanceled
		} else if len(status.Errors) == 0 {
			status.Errors = []string{"discarded"}
			if reason := r.text(keyConflict); reason != "" {
				status.Errors = []string{"discarded, because another job has its unique key: " + reason}
			}
		}
		status.ErrorCount = len(status.Errors)
	}
}

// currentAttempt numbers the attempt that runs, ran last, or runs next, from 0.
func (r *row) currentAttempt() int {
	if r.state == stateRunning || r.hasEnded() {
		return max(0, int(r.attempt)-1)
	}
	return int(r.attempt)
}

// attempts returns a record for each attempt that left an error, and the latest one.
func (r *row) attempts() []*driver.Record {
	latest := r.record()
	var all []*driver.Record
	for i, e := range r.errors {
		number := max(0, e.Attempt-1)
		if number == latest.RetryInfo.CurrentAttempt {
			continue
		}
		failed := *latest
		failed.RetryInfo.CurrentAttempt = number
		failed.Name = driver.RecordName(r.queue, latest.RetryInfo.BaseJobID, failed.RetryInfo)
		failed.Status = amboy.JobStatusInfo{Completed: true, ErrorCount: 1, Errors: []string{e.Error}, Attempts: latest.Status.Attempts[:i+1]}
		if number < len(r.attemptedBy) {
			failed.Status.Owner = parseToken(r.attemptedBy[number], number+1).owner
		}
		start := e.attemptError().At
		failed.TimeInfo.Start, failed.TimeInfo.End = start, time.Time{}
		if int(r.attempt) == e.Attempt {
			failed.TimeInfo.Start = r.attemptedAt
		}
		failed.TimeInfo.WaitUntil = time.Time{}
		failed.Progress, failed.Result, failed.CancelRequested, failed.ForgetAt = nil, nil, false, time.Time{}
		all = append(all, &failed)
	}
	return append(all, latest)
}

func (e attemptError) attemptError() amboy.AttemptError {
	at, err := time.Parse(time.RFC3339Nano, e.At)
	if err != nil {
		at = time.Time{} // a program that is not River's has written something else
	}
	return amboy.AttemptError{Attempt: max(0, e.Attempt-1), At: at.UTC(), Error: e.Error, Stack: e.Trace}
}

// owners returns the owners of all claims, oldest first.
func (r *row) owners() []string {
	owners := make([]string, len(r.attemptedBy))
	for i, by := range r.attemptedBy {
		owners[i] = parseToken(by, i+1).owner
	}
	return owners
}

// priorityOf returns the priority of a record. River's 1 comes first, and so does our larger number.
// It is its own inverse.
func priorityOf(river int16) int { return -int(river) }

// typeOf returns the version and the timeout of a definition; 0 for a kind without one.
func typeOf(kind string) (version int, timeout time.Duration) {
	types := registry.KnownTypes().Jobs
	i, found := slices.BinarySearchFunc(types, kind, func(t registry.KnownType, name string) int { return strings.Compare(t.Name, name) })
	if !found {
		return 0, 0
	}
	factory, err := registry.GetJobFactory(kind)
	if err != nil {
		return types[i].To, 0
	}
	if typed, ok := factory().(interface{ DefaultTimeout() time.Duration }); ok {
		timeout = typed.DefaultTimeout()
	}
	return types[i].To, timeout
}

// hasRetryPolicy reports whether a definition has a retry policy.
func hasRetryPolicy(kind string) bool {
	factory, err := registry.GetJobFactory(kind)
	if err != nil {
		return false
	}
	own, ok := factory().(amboy.RetryPolicyJob)
	return ok && own.RetryPolicy() != nil
}

// ownMetadata returns the metadata that is not shown in another place. A value that is no text is
// shown as JSON.
func (r *row) ownMetadata() map[string]string {
	own := map[string]string{}
	for key, value := range r.metadata {
		switch key {
		case keyLog, keyOutput, keyProgress, keyParked, keyUndecided:
		default:
			own[key] = textOf(value)
		}
	}
	if len(own) == 0 {
		return nil
	}
	return own
}

// text returns a value of the metadata; empty if there is none.
func (r *row) text(key string) string {
	if value, ok := r.metadata[key]; ok {
		return textOf(value)
	}
	return ""
}

func textOf(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil && string(value) != "null" {
		return text
	}
	return string(value)
}

// mergeMetadata stores what a job has changed of its metadata since before, which is what the claim
// returned; nil if that is unknown or was nothing. Other keys stay as they are, with what others have
// written meanwhile.
func (r *row) mergeMetadata(before any, now map[string]string) {
	own := r.ownMetadata()
	claimed, isKnown := before.(map[string]string)
	for key, text := range now {
		stored, isStored := own[key]
		switch was, had := claimed[key]; {
		case isStored && stored == text, isKnown && had && was == text:
		case isStored && !isText(r.metadata[key]) && json.Valid([]byte(text)):
			r.put(key, json.RawMessage(text)) // it stays a number, for instance
		default:
			r.put(storable(key), storable(text))
		}
	}
}

func isText(value json.RawMessage) bool { return len(value) > 0 && value[0] == '"' }

// The fields of the stored form of jobs and results.
const (
	fieldArgs  = "args"
	fieldValue = "value"
)

// result returns the output of a job in the form in which results are stored.
func (r *row) result() *registry.Body {
	output, ok := r.metadata[keyOutput]
	if !ok {
		return nil
	}
	encoded, err := json.Marshal(map[string]json.RawMessage{fieldValue: output})
	if err != nil {
		return nil // can't happen: it was decoded as JSON
	}
	return new(registry.NewBody(encoded, true))
}

// fieldOf returns a field of a stored document in JSON. A document in another form, such as one that
// a codec has encrypted, is stored as a whole.
func fieldOf(body registry.Body, field string) json.RawMessage {
	var fields map[string]json.RawMessage
	if body.IsJSON() && json.Unmarshal(body.Raw(), &fields) == nil && fields[field] != nil {
		return fields[field]
	}
	whole, err := body.MarshalJSON()
	if err != nil {
		return json.RawMessage("null") // can't happen: it is text or base64
	}
	return whole
}

func (r *row) progress() *amboy.JobProgress {
	stored, ok := r.metadata[keyProgress]
	if !ok {
		return nil
	}
	var p amboy.JobProgress
	if json.Unmarshal(stored, &p) != nil {
		return nil // another program has written something else
	}
	return &p
}

// attemptLog is an element of the log, which River UI shows.
type attemptLog struct {
	Attempt int    `json:"attempt"`
	Log     string `json:"log"`
}

// putProgress stores the progress and the log of the current attempt.
func (r *row) putProgress(p *amboy.JobProgress) {
	if p == nil {
		return
	}
	stored := p.Clone()
	stored.Message = storable(stored.Message)
	for i := range stored.Log {
		stored.Log[i].Text = storable(stored.Log[i].Text)
	}
	if stored.Stuck != nil {
		stored.Stuck.Cause, stored.Stuck.Stack = storable(stored.Stuck.Cause), storable(stored.Stuck.Stack)
	}
	r.put(keyProgress, stored)
	if len(p.Log) == 0 {
		return
	}
	var text strings.Builder
	for _, line := range stored.Log {
		text.WriteString(line.Time.UTC().Format(time.RFC3339) + " " + line.Text + "\n")
	}
	var logs []json.RawMessage
	if json.Unmarshal(r.metadata[keyLog], &logs) != nil {
		logs = nil
	}
	logs = slices.DeleteFunc(logs, func(stored json.RawMessage) bool {
		var of attemptLog
		return json.Unmarshal(stored, &of) == nil && of.Attempt == int(r.attempt)
	})
	own, err := json.Marshal(attemptLog{int(r.attempt), text.String()})
	if err != nil {
		return // can't happen: it is text
	}
	r.put(keyLog, append(logs, own))
}

// stateOf returns the state of our model that a unique key counts in for a state of River.
var stateOf = map[string]amboy.JobState{
	stateAvailable: amboy.StatePending,
	stateCancelled: amboy.StateCanceled,
	stateCompleted: amboy.StateSucceeded,
	stateDiscarded: amboy.StateFailed,
	statePending:   amboy.StateParked,
	stateRetryable: amboy.StateRetrying,
	stateRunning:   amboy.StateRunning,
	stateScheduled: amboy.StateScheduled,
}

// statesOfKey returns the states in which the unique key counts, in the order of a job's life.
func (r *row) statesOfKey() []amboy.JobState {
	var states []amboy.JobState
	for _, state := range stateBits {
		if r.counts(state) {
			states = append(states, stateOf[state])
		}
	}
	slices.SortFunc(states, func(a, b amboy.JobState) int {
		return slices.Index(amboy.JobStates(), a) - slices.Index(amboy.JobStates(), b)
	})
	return states
}

// uniqueUntil returns which of the rules of our own stores comes closest.
func (r *row) uniqueUntil() amboy.UniqueUntil {
	switch {
	case r.counts(stateCompleted) && r.counts(stateDiscarded):
		return amboy.UniqueUntilForgotten
	case r.counts(stateCompleted):
		return amboy.UniqueUntilFailed
	default:
		return amboy.UniqueUntilEnded
	}
}
