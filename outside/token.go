package outside

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"sync"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// ErrLeaseLost is wrapped by the errors of acknowledgements and heartbeats whose lease was
// lost: it ran out, the job has ended, or another worker has it.
var ErrLeaseLost = amboy.ErrLeaseLost

// ErrBadToken is wrapped by the errors for tokens that no Dispatcher on the store has issued.
var ErrBadToken = errors.New("invalid token: not issued by a lease")

// Token identifies a lease. It is a text of letters, digits, - and _, at most MaxTokenBytes
// long. Dispatchers sign their tokens with a key that their store keeps.
type Token string

// MaxTokenBytes is the maximum length of a token.
const MaxTokenBytes = 10 << 10

// Job returns the queue and the type of the leased job. It does not find out whether a Dispatcher
// has issued the token: Acknowledge and Heartbeat do. The error wraps ErrBadToken.
func (t Token) Job() (queueName, jobType string, err error) {
	l, _, err := t.decode()
	return l.Queue, l.jobType, err
}

// lease is the content of a token.
type lease struct {
	driver.Lease
	jobID, jobType string
	// length is how long the lease lasts if it is renewed.
	length time.Duration
	// runBy is when the job must have ended; zero for no limit.
	runBy time.Time
	// unstamped is true if the stamp of the lease is not known, because a process of an earlier version
	// issued the token.
	unstamped bool
}

const (
	// tokenVersion is the first byte of a token. Tokens of unstampedVersion have no stamp.
	tokenVersion     = 3
	unstampedVersion = 2
	// signatureBytes is the size of the signature, which ends a token.
	signatureBytes = 16
	// tokenBytes is the capacity that most tokens need before they are encoded as text.
	tokenBytes = 256
)

// signer signs tokens with the key of a store.
type signer struct {
	// macs holds MACs with the key, to reuse: making one takes longer than signing a token.
	macs sync.Pool
}

func newSigner(key []byte) *signer {
	return &signer{macs: sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}}
}

func (s *signer) signature(form []byte) []byte {
	mac := s.macs.Get().(hash.Hash)
	defer s.macs.Put(mac)
	mac.Reset()
	_, _ = mac.Write(form) // it does not fail
	return mac.Sum(nil)[:signatureBytes]
}

// token encodes a lease. A nil signer returns no token.
func (s *signer) token(l lease) Token {
	if s == nil {
		return ""
	}
	texts := [...]string{l.Queue, l.jobID, l.jobType, l.Name, l.Owner}
	form := append(make([]byte, 0, tokenBytes), tokenVersion)
	for _, text := range texts {
		form = binary.AppendUvarint(form, uint64(len(text)))
		form = append(form, text...)
	}
	runBy := int64(0)
	if !l.runBy.IsZero() {
		runBy = l.runBy.UnixMilli()
	}
	for _, number := range [...]int64{int64(l.Count), l.length.Milliseconds(), runBy, l.Stamp} {
		form = binary.AppendVarint(form, number)
	}
	return Token(base64.RawURLEncoding.EncodeToString(append(form, s.signature(form)...)))
}

// lease returns the lease of a token that was signed with the key.
func (s *signer) lease(t Token) (lease, error) {
	l, form, err := t.decode()
	if err != nil {
		return lease{}, err
	}
	content := len(form) - signatureBytes
	if !hmac.Equal(form[content:], s.signature(form[:content])) {
		return lease{}, ErrBadToken
	}
	return l, nil
}

// decode returns the lease of a token, and its bytes, which end with the signature.
func (t Token) decode() (l lease, all []byte, err error) {
	if len(t) > MaxTokenBytes {
		return lease{}, nil, fmt.Errorf("%w: it has %d bytes", ErrBadToken, len(t))
	}
	all, err = base64.RawURLEncoding.Strict().DecodeString(string(t))
	if err != nil || len(all) <= signatureBytes {
		return lease{}, nil, ErrBadToken
	}
	var room [4]int64
	numbers := room[:]
	switch all[0] {
	case tokenVersion:
	case unstampedVersion:
		numbers, l.unstamped = room[:3], true
	default:
		return lease{}, nil, ErrBadToken
	}
	form := all[1 : len(all)-signatureBytes]
	for _, into := range []*string{&l.Queue, &l.jobID, &l.jobType, &l.Name, &l.Owner} {
		size, n := binary.Uvarint(form)
		if n <= 0 || size > uint64(len(form)-n) {
			return lease{}, nil, ErrBadToken
		}
		form = form[n:]
		*into, form = string(form[:size]), form[size:]
	}
	for i := range numbers {
		number, n := binary.Varint(form)
		if n <= 0 {
			return lease{}, nil, ErrBadToken
		}
		numbers[i], form = number, form[n:]
	}
	l.Count, l.length = int(numbers[0]), time.Duration(numbers[1])*time.Millisecond
	if numbers[2] != 0 {
		l.runBy = time.UnixMilli(numbers[2])
	}
	l.Stamp = room[3]
	if len(form) > 0 || l.length < MinLease || l.length > MaxLease || l.jobID == "" {
		return lease{}, nil, ErrBadToken
	}
	return l, all, nil
}

// The note that keeps the key of the tokens of a store.
const (
	keyKind, keyName = "outside-token-key", "key"
	keyLifetime      = 100 * 365 * 24 * time.Hour
)

// signer returns the key of the tokens, which the first Dispatcher on a store makes.
func (d *Dispatcher) signer(ctx context.Context) (*signer, error) {
	if known := d.key.Load(); known != nil {
		return known, nil
	}
	kept, err := d.leases.KeepNew(ctx, driver.Note{
		Kind: keyKind, Key: keyName, Value: []byte(rand.Text()), Until: d.leases.Now().Add(keyLifetime),
	})
	if err != nil {
		return nil, fmt.Errorf("reading the key of the tokens: %w", err)
	}
	sign := newSigner(kept.Value)
	d.key.Store(sign)
	return sign, nil
}
