package management

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// digestLength is how much of a digest is in a cursor, in hexadecimal digits.
const digestLength = 16

// maxCursorBytes bounds what is decoded.
const maxCursorBytes = 16 << 10

// cursor is a place in a list. What a client is given is encrypted: a place tells how many
// jobs all tenants of a store have put, and when others did something.
type cursor struct {
	// List is a digest of what list it is a place in.
	List string `json:"l"`
	// After is the place.
	After string `json:"a"`
}

// listOf is a digest of what a list is of: what kind, the filter and the order.
func listOf(kind string, parts ...any) (string, error) {
	sum, err := digest(append([]any{kind}, parts...)...)
	if err != nil {
		return "", err
	}
	return sum[:digestLength], nil
}

const (
	secretKind = "secret"
	cursorKey  = "cursor"
	// secretBytes is the size of a secret, which is a key of AES-256.
	secretBytes = 32
	// secretTime is as good as for ever.
	secretTime = 10 * 365 * 24 * time.Hour
	// cursorBlock is what the length of a cursor is a multiple of, so that it does not tell
	// the length of a number in it.
	cursorBlock = 64
)

// cursorSeal encrypts and authenticates cursors. Its key is a note in the store, so that a
// cursor is good in all processes on the store, and after a restart.
type cursorSeal struct {
	mu   sync.Mutex
	aead cipher.AEAD // nil until it is needed
}

// of returns what encrypts the cursors of a store.
func (s *cursorSeal) of(ctx context.Context, store store) (cipher.AEAD, error) {
	s.mu.Lock()
	aead := s.aead
	s.mu.Unlock()
	if aead != nil {
		return aead, nil
	}
	key := make([]byte, secretBytes)
	_, _ = rand.Read(key) // it never fails
	now := store.Now()
	kept, _, err := store.Admin().KeepNew(ctx, driver.Note{Kind: secretKind, Key: cursorKey, Value: key, Until: now.Add(secretTime)}, now)
	if err != nil {
		return nil, fmt.Errorf("reading the key of cursors: %w", err)
	}
	block, err := aes.NewCipher(kept.Value)
	if err == nil {
		aead, err = cipher.NewGCMWithRandomNonce(block)
	}
	if err != nil {
		return nil, fmt.Errorf("using the key of cursors: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.aead = aead
	return aead, nil
}

// encodeCursor makes a cursor of a place in a list; an empty one of an empty place.
func (i *inspector) encodeCursor(ctx context.Context, list, after string) (string, error) {
	if after == "" {
		return "", nil
	}
	form, err := json.Marshal(cursor{List: list, After: after})
	if err != nil {
		return "", fmt.Errorf("encoding a cursor: %w", err)
	}
	aead, err := i.seal.of(ctx, i.store)
	if err != nil {
		return "", err
	}
	form = append(form, bytes.Repeat([]byte{' '}, cursorBlock-len(form)%cursorBlock)...)
	return base64.RawURLEncoding.EncodeToString(aead.Seal(nil, nil, form, nil)), nil
}

// decodeCursor returns the place in a list. It returns an *InvalidArgumentError for
// what encodeCursor did not make, and for a place in another list.
func (i *inspector) decodeCursor(ctx context.Context, list, text string) (after string, err error) {
	if text == "" {
		return "", nil
	}
	if len(text) > maxCursorBytes {
		return "", badCursor(text)
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return "", badCursor(text)
	}
	aead, err := i.seal.of(ctx, i.store)
	if err != nil {
		return "", err
	}
	form, err := aead.Open(nil, nil, sealed, nil)
	if err != nil {
		return "", badCursor(text)
	}
	var c cursor
	if json.Unmarshal(form, &c) != nil || c.After == "" {
		return "", badCursor(text)
	}
	if c.List != list {
		return "", invalid("cursor", text, "must be that of an earlier page of the same list, with the same filter and order")
	}
	return c.After, nil
}

func badCursor(text string) error {
	return invalid("cursor", text, "must be the next of an earlier page")
}

// cursorError names the cursor where the store does not know it.
func cursorError(text string, err error) error {
	if errors.Is(err, driver.ErrBadCursor) {
		return badCursor(text)
	}
	return err
}
