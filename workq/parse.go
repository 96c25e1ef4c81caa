package workq

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// answer is an error line, without its line end.
type answer string

// The error lines of the protocol.
const (
	notFound        answer = "-NOT-FOUND"
	timedOut        answer = "-TIMEOUT"
	unknownCommand  answer = "-CLIENT-ERROR Unknown command"
	invalidArgs     answer = "-CLIENT-ERROR Invalid command args"
	invalidFlags    answer = "-CLIENT-ERROR Invalid command flags"
	invalidPayload  answer = "-CLIENT-ERROR Invalid payload size"
	invalidResult   answer = "-CLIENT-ERROR Invalid result size"
	invalidID       answer = "-CLIENT-ERROR Invalid ID"
	invalidName     answer = "-CLIENT-ERROR Invalid Name"
	invalidTTR      answer = "-CLIENT-ERROR Invalid TTR"
	invalidTTL      answer = "-CLIENT-ERROR Invalid TTL"
	invalidTime     answer = "-CLIENT-ERROR Invalid Time"
	invalidAttempts answer = "-CLIENT-ERROR Invalid Max Attempts"
	invalidFails    answer = "-CLIENT-ERROR Invalid Max Fails"
	invalidPriority answer = "-CLIENT-ERROR Invalid Priority"
	invalidWait     answer = "-CLIENT-ERROR Invalid wait timeout"
	invalidOffset   answer = "-CLIENT-ERROR Invalid cursor offset"
	invalidLimit    answer = "-CLIENT-ERROR Invalid limit"
	duplicateJob    answer = "-CLIENT-ERROR Duplicate job"
	duplicateResult answer = "-CLIENT-ERROR Duplicate result"
	outOfSync       answer = "-SERVER-ERROR Queue out of sync"
	readOnly        answer = "-SERVER-ERROR Read-only mode triggered by cmdlog circuit breaker"
)

// Error returns the line.
func (a answer) Error() string { return string(a) }

// syntax is the form of a command.
type syntax struct {
	// words is the number of words with the command's name. If atLeast is true there may be
	// more.
	words   int
	atLeast bool
	// flags is the number of flags that are allowed.
	flags int
	// block is the error line for a bad block; empty for a command without one.
	block answer
}

var commands = map[string]syntax{
	"add":      {words: 6, flags: 3, block: invalidPayload},
	"schedule": {words: 7, flags: 3, block: invalidPayload},
	"run":      {words: 6, flags: 1, block: invalidPayload},
	"complete": {words: 3, block: invalidPayload},
	"fail":     {words: 3, block: invalidResult},
	"result":   {words: 3},
	"lease":    {words: 3, atLeast: true},
	"delete":   {words: 2},
	"inspect":  {words: 2, atLeast: true},
}

// command is a parsed line.
type command struct {
	syntax
	name string
	// args are the words after the name that are not flags; room has room for those of most commands.
	args  []string
	room  [6]string
	flags map[string]string
	// size is the size of the block; -1 if it can't be known.
	size int
	// problem is what is wrong with the line; empty if nothing is.
	problem answer
}

// parse parses a line, without its line end, into a zero command. It finds what is wrong with the form
// of the line, in the order in which the protocol checks it, except for the number of flags.
func (c *command) parse(line string) {
	c.size = -1
	if line == "" || line[0] == ' ' {
		c.problem = unknownCommand
		return
	}
	var words string
	c.name, words, _ = strings.Cut(line, " ")
	form, known := commands[c.name]
	if !known {
		c.problem = unknownCommand
		return
	}
	c.syntax = form
	c.args = c.room[:0]
	for word := range strings.SplitSeq(words, " ") {
		switch {
		case word == "":
		case word[0] == '-' && strings.Contains(word, "="):
			c.addFlag(word[1:])
		default:
			c.args = append(c.args, word)
		}
	}
	n := 1 + len(c.args)
	rightWords := n == form.words || form.atLeast && n > form.words
	if c.problem == "" && !rightWords {
		c.problem = invalidArgs
	}
	if form.block == "" || !rightWords {
		return
	}
	size, err := strconv.ParseInt(c.args[n-2], 10, 64)
	if err == nil && size >= 0 && size <= MaxBlock {
		c.size = int(size)
	} else if c.problem == "" {
		c.problem = form.block
	}
}

// isHTTP reports whether a line begins a request of HTTP. A page in a browser of this machine can
// send one to any port, and its body must not be read as commands.
func isHTTP(line string) bool {
	return strings.Contains(line, " HTTP/") || strings.HasPrefix(line, "Host:")
}

// hasBlock reports whether a block follows the line, as far as that can be known. bad is true
// if it can't, so that what follows must not be read.
func (c *command) hasBlock() (has, bad bool) {
	if c.block == "" || 1+len(c.args) != c.words {
		return false, false
	}
	return c.size >= 0, c.size < 0
}

// addFlag adds a flag. Its value ends at a second =.
func (c *command) addFlag(text string) {
	name, value, _ := strings.Cut(text, "=")
	value, _, _ = strings.Cut(value, "=")
	if _, again := c.flags[name]; again || name == "" || value == "" {
		c.problem = invalidFlags
		return
	}
	if c.flags == nil {
		c.flags = map[string]string{}
	}
	c.flags[name] = value
}

// checkFlags checks the number of flags, which comes after the block.
func (c *command) checkFlags() error {
	if len(c.flags) > c.syntax.flags {
		return invalidArgs
	}
	return nil
}

// isName reports whether a text is a valid name.
func isName(name string) bool {
	if name == "" || len(name) > MaxName {
		return false
	}
	for i := range len(name) {
		if !isNameByte[name[i]] {
			return false
		}
	}
	return true
}

// isNameByte is true for the bytes that names consist of.
var isNameByte = func() (is [256]bool) {
	for _, b := range []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") {
		is[b] = true
	}
	return is
}()

const dashes = "........-....-....-....-............"

// parseID returns an ID in lower case. It is an error if it is no UUID. isRandom reports
// whether it is one of version 4 and of the variant of RFC 4122.
func parseID(text string) (id string, isRandom bool, err error) {
	lower := strings.ToLower(text)
	if len(lower) != len(dashes) {
		return "", false, invalidID
	}
	for i := range len(lower) {
		b := lower[i]
		isHex := '0' <= b && b <= '9' || 'a' <= b && b <= 'f'
		if dashes[i] == '-' && b != '-' || dashes[i] == '.' && !isHex {
			return "", false, invalidID
		}
	}
	return lower, lower[14] == '4' && strings.IndexByte("89ab", lower[19]) >= 0, nil
}

// number parses a decimal number without a sign.
func number(text string, most uint64) (n uint64, ok bool) {
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil && n <= most
}

// parseMillis parses a number of milliseconds. isNumber is false if it is none, and inRange
// is false if it is not from least to most.
func parseMillis(text string, least uint64, most time.Duration) (d time.Duration, isNumber, inRange bool) {
	n, isNumber := number(text, math.MaxUint64)
	if !isNumber || n < least || n > uint64(most.Milliseconds()) { //nolint:gosec // It is positive.
		return 0, isNumber, false
	}
	return time.Duration(n) * time.Millisecond, true, true //nolint:gosec // It is at most most.
}

// parseWait parses a time to wait.
func parseWait(text string) (time.Duration, error) {
	d, _, ok := parseMillis(text, 0, MaxTTR)
	if !ok {
		return 0, invalidWait
	}
	return d, nil
}

// parsePriority parses a signed number of 32 bits.
func parsePriority(text string) (int, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || text[0] == '+' {
		return 0, invalidPriority
	}
	return int(n), nil
}

// timeForm is the form of a time. The T and the Z are letters; fractions may follow the
// seconds.
const timeForm = "2006-01-02T15:04:05Z"

// newJob is what a client says about a job to put.
type newJob struct {
	id, name              string
	ttr, ttl, wait        time.Duration
	at                    time.Time // zero unless it was scheduled
	maxAttempts, maxFails int
	priority              int
	payload               []byte
}

// parseNewJob checks the words and flags of add, schedule and run, in the order of the
// protocol.
func (c *command) parseNewJob(payload []byte) (j newJob, err error) {
	j.payload = payload
	var isRandom, isNumber, ttrInRange, ttlInRange bool
	if j.id, isRandom, err = parseID(c.args[0]); err != nil {
		return j, err
	}
	if j.ttr, isNumber, ttrInRange = parseMillis(c.args[2], 1, MaxTTR); !isNumber {
		return j, invalidTTR
	}
	if c.name == "run" {
		ttlInRange = true
		if err = c.parsePriority(&j); err == nil {
			j.wait, err = parseWait(c.args[3])
		}
	} else {
		if j.ttl, isNumber, ttlInRange = parseMillis(c.args[3], 1, MaxTTL); !isNumber {
			return j, invalidTTL
		}
		if c.name == "schedule" {
			if j.at, err = time.Parse(timeForm, c.args[4]); err != nil {
				return j, invalidTime
			}
		}
		err = c.parseFlags(&j)
	}
	if err != nil {
		return j, err
	}
	j.name = c.args[1]
	switch {
	case !isRandom:
		return j, invalidID
	case !isName(j.name):
		return j, invalidName
	case !ttrInRange:
		return j, invalidTTR
	case !ttlInRange:
		return j, invalidTTL
	}
	return j, nil
}

func (c *command) parsePriority(j *newJob) (err error) {
	if text, ok := c.flags["priority"]; ok {
		j.priority, err = parsePriority(text)
	}
	return err
}

func (c *command) parseFlags(j *newJob) error {
	for _, flag := range []struct {
		name string
		into *int
		bad  answer
	}{{"max-attempts", &j.maxAttempts, invalidAttempts}, {"max-fails", &j.maxFails, invalidFails}} {
		if text, ok := c.flags[flag.name]; ok {
			n, ok := number(text, MaxAttempts)
			if !ok {
				return flag.bad
			}
			*flag.into = int(n) //nolint:gosec // It is at most 255.
		}
	}
	return c.parsePriority(j)
}

// leaseRequest is what a client says to lease a job.
type leaseRequest struct {
	names []string // without repetitions
	wait  time.Duration
}

func (c *command) parseLease() (r leaseRequest, err error) {
	last := len(c.args) - 1
	if r.wait, err = parseWait(c.args[last]); err != nil {
		return r, err
	}
	for _, name := range c.args[:last] {
		if !isName(name) {
			return r, invalidName
		}
	}
	names := slices.Clone(c.args[:last])
	slices.Sort(names)
	r.names = slices.Compact(names)
	if len(r.names) > MaxLeaseNames {
		return r, invalidArgs
	}
	return r, nil
}

// page is a part of a list.
type page struct{ offset, limit int }

func parsePage(offset, limit string) (p page, err error) {
	from, ok := number(offset, math.MaxUint32)
	if !ok {
		return p, invalidOffset
	}
	n, ok := number(limit, 100)
	if !ok || n == 0 {
		return p, invalidLimit
	}
	return page{offset: int(from), limit: int(n)}, nil //nolint:gosec // They fit.
}
