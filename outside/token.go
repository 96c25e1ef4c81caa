package outside

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// ErrLeaseLost is wrapped by the errors of acknowledgements and heartbeats whose lease was
// lost: it ran out, the job has ended, or another worker has it.
var ErrLeaseLost = amboy.ErrLeaseLost

// ErrBadToken is wrapped by the errors for tokens that no Dispatcher has issued.
var ErrBadToken = errors.New("invalid token: not issued by a lease")

// Token identifies a lease. It is a text of letters, digits, - and _, at most MaxTokenBytes
// long.
type Token string

// MaxTokenBytes is the maximum length of a token.
const MaxTokenBytes = 8 << 10

// Queue returns the queue of the leased job. The error wraps ErrBadToken.
func (t Token) Queue() (string, error) {
	l, err := t.decode()
	return l.Queue, err
}

// lease is the content of a token.
type lease struct {
	driver.Lease
	jobID string
	// length is how long the lease lasts if it is renewed.
	length time.Duration
	// runBy is when the job must have ended; zero for no limit.
	runBy time.Time
}

// tokenVersion is the first byte of a token.
const tokenVersion = 1

// tokenBytes is the capacity that most tokens need before they are encoded as text.
const tokenBytes = 256

// token encodes a lease.
func (l lease) token() Token {
	texts := [...]string{l.Queue, l.jobID, l.Name, l.Owner}
	form := append(make([]byte, 0, tokenBytes), tokenVersion)
	for _, text := range texts {
		form = binary.AppendUvarint(form, uint64(len(text)))
		form = append(form, text...)
	}
	runBy := int64(0)
	if !l.runBy.IsZero() {
		runBy = l.runBy.UnixMilli()
	}
	for _, number := range [...]int64{int64(l.Count), l.length.Milliseconds(), runBy} {
		form = binary.AppendVarint(form, number)
	}
	return Token(base64.RawURLEncoding.EncodeToString(form))
}

// decode returns the lease of a token.
func (t Token) decode() (l lease, err error) {
	if len(t) > MaxTokenBytes {
		return lease{}, fmt.Errorf("%w: it has %d bytes", ErrBadToken, len(t))
	}
	form, err := base64.RawURLEncoding.Strict().DecodeString(string(t))
	if err != nil || len(form) == 0 || form[0] != tokenVersion {
		return lease{}, ErrBadToken
	}
	form = form[1:]
	for _, into := range []*string{&l.Queue, &l.jobID, &l.Name, &l.Owner} {
		size, n := binary.Uvarint(form)
		if n <= 0 || size > uint64(len(form)-n) {
			return lease{}, ErrBadToken
		}
		form = form[n:]
		*into, form = string(form[:size]), form[size:]
	}
	var numbers [3]int64
	for i := range numbers {
		number, n := binary.Varint(form)
		if n <= 0 {
			return lease{}, ErrBadToken
		}
		numbers[i], form = number, form[n:]
	}
	l.Count, l.length = int(numbers[0]), time.Duration(numbers[1])*time.Millisecond
	if numbers[2] != 0 {
		l.runBy = time.UnixMilli(numbers[2])
	}
	// Only leases of outside workers have tokens: a token for a job that runs in a Go process
	// must not be believed.
	if len(form) > 0 || !strings.HasPrefix(l.Owner, queue.OutsideOwner) || l.length < MinLease || l.length > MaxLease || l.jobID == "" {
		return lease{}, ErrBadToken
	}
	return l, nil
}
