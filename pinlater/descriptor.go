package pinlater

import (
	"strconv"
	"strings"
)

// shard is the name of the only shard.
const shard = "1"

// idPrefix is put before the local ID of a descriptor to get the ID of its job.
const idPrefix = "pinlater-"

// descriptor names a job, as in mail:s1:p2:4711.
type descriptor struct {
	queue    string
	priority int
	localID  int64
}

// String returns the descriptor's text.
func (d descriptor) String() string {
	return d.queue + ":s" + shard + ":p" + strconv.Itoa(d.priority) + ":" + strconv.FormatInt(d.localID, 10)
}

// jobID returns the ID of the job.
func (d descriptor) jobID() string { return jobIDOf(d.localID) }

func jobIDOf(localID int64) string { return idPrefix + strconv.FormatInt(localID, 10) }

// localIDOf returns the local ID of a job, and false for a job without one.
func localIDOf(jobID string) (int64, bool) {
	text, ok := strings.CutPrefix(jobID, idPrefix)
	if !ok {
		return 0, false
	}
	id, err := strconv.ParseInt(text, 10, 64)
	return id, err == nil && id > 0 && jobIDOf(id) == jobID
}

// parseDescriptor parses a descriptor. The first letters of the shard and of the priority
// may be any.
func parseDescriptor(text string) (descriptor, error) {
	fail := func(rule string) (descriptor, error) {
		return descriptor{}, wrong("invalid job descriptor %q: %s", short(text), rule)
	}
	parts := strings.Split(text, ":")
	if len(parts) != 4 {
		return fail("must have four parts separated by colons")
	}
	if parts[1] == "" || parts[2] == "" {
		return fail("shard and priority must not be empty")
	}
	if parts[1][1:] != shard {
		return fail("the shard must be " + shard)
	}
	priority, err := strconv.ParseInt(parts[2][1:], 10, 32)
	if err != nil {
		return fail("the priority must be a number")
	}
	localID, err := strconv.ParseInt(parts[3], 10, 64)
	if err != nil {
		return fail("the local ID must be a number")
	}
	return descriptor{queue: parts[0], priority: int(priority), localID: localID}, nil
}

// short bounds a text of a client for an error message.
func short(text string) string {
	const limit = 200
	if len(text) > limit {
		return text[:limit] + "…"
	}
	return text
}
