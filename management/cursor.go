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

// maxCursorBytes bounds the input of the decoder.
const maxCursorBytes = 16 << 10

// cursor is a place in a list. Clients receive it encrypted: a place reveals how many jobs
// all tenants of a store have put, and when other tenants acted.
type cursor struct {
	// List is a digest that identifies the list.
	List string `json:"l"`
	// After is the place.
	After string `json:"a"`
	// Entry is the key of the audit entry of the action that continues at the place.
	Entry string `json:"e,omitempty"`
}

// listDigest returns a digest of a list: its kind, filter and order.
func listDigest(kind string, parts ...any) (string, error) {
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
	// secretTime is long enough to never matter.
	secretTime = 10 * 365 * 24 * time.Hour
	// cursorBlock divides the length of every cursor, so that the length does not reveal
	// how many digits a number in it has.
	cursorBlock = 64
)

// cursorSeal encrypts and authenticates cursors. Its key is a note in the store, so that a
// cursor is valid in every process on the store, and after a restart.
type cursorSeal struct {
	mu   sync.Mutex
	aead cipher.AEAD // nil until it is needed
}

// cipherOf returns the cipher for the cursors of a store.
func (s *cursorSeal) cipherOf(ctx context.Context, store store) (cipher.AEAD, error) {
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

// encodeCursor returns the cursor of a place in a list. That of an empty place is empty.
func (i *inspector) encodeCursor(ctx context.Context, list, after string) (string, error) {
	return i.sealCursor(ctx, cursor{List: list, After: after})
}

func (i *inspector) sealCursor(ctx context.Context, c cursor) (string, error) {
	if c.After == "" {
		return "", nil
	}
	form, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encoding a cursor: %w", err)
	}
	aead, err := i.seal.cipherOf(ctx, i.store)
	if err != nil {
		return "", err
	}
	form = append(form, bytes.Repeat([]byte{' '}, cursorBlock-len(form)%cursorBlock)...)
	return base64.RawURLEncoding.EncodeToString(aead.Seal(nil, nil, form, nil)), nil
}

// decodeCursor returns the place of a cursor. It returns an *InvalidArgumentError for a
// text that encodeCursor did not make, and for a place in another list.
func (i *inspector) decodeCursor(ctx context.Context, list, text string) (after string, err error) {
	c, err := i.openCursor(ctx, list, text)
	return c.After, err
}

func (i *inspector) openCursor(ctx context.Context, list, text string) (c cursor, err error) {
	if text == "" {
		return cursor{}, nil
	}
	if len(text) > maxCursorBytes {
		return cursor{}, badCursor(text)
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return cursor{}, badCursor(text)
	}
	aead, err := i.seal.cipherOf(ctx, i.store)
	if err != nil {
		return cursor{}, err
	}
	form, err := aead.Open(nil, nil, sealed, nil)
	if err != nil {
		return cursor{}, badCursor(text)
	}
	if json.Unmarshal(form, &c) != nil || c.After == "" {
		return cursor{}, badCursor(text)
	}
	if c.List != list {
		return cursor{}, invalid("cursor", text, "must come from an earlier page of the same list, with the same filter and order")
	}
	return c, nil
}

func badCursor(text string) error {
	return invalid("cursor", text, "must be the next cursor of an earlier page")
}

// cursorError replaces the store's error for an invalid cursor with one that names the cursor.
func cursorError(text string, err error) error {
	if errors.Is(err, driver.ErrBadCursor) {
		return badCursor(text)
	}
	return err
}
