package codec

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
)

// Key is a key of AESGCM. Packages fmt and log/slog do not print its secret.
type Key struct {
	// ID names the key in what it encrypts. It has from 1 to MaxNameBytes bytes. It must
	// stay the same, and must not be given to another key.
	ID string
	// Secret is the key: KeyBytes random bytes.
	Secret []byte
}

// KeyBytes is the length of the secret of a Key.
const KeyBytes = 32

// Format implements fmt.Formatter: it prints the ID.
func (k Key) Format(s fmt.State, _ rune) { _, _ = fmt.Fprintf(s, "key %q", k.ID) }

// LogValue implements slog.LogValuer: it logs the ID.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.ID) }

// AESGCM is a Codec that encrypts with AES-256 in Galois/Counter Mode, in the form
// XAES-256-GCM (https://c2sp.org/XAES-256-GCM): with each value is stored a random nonce of 24
// bytes, half of which derives the key of the value. So a key can encrypt any number of values;
// plain AES-GCM with random nonces would have to change keys every 2^32 values. A value grows
// by 40 bytes.
//
// The field of a value is authenticated with it: a value that was changed, or moved to another
// job, queue, type or kind, is refused. An older value of the same field is not: who can write
// to the store can restore one.
type AESGCM struct {
	first string
	keys  map[string]*derivingKey
}

// NewAESGCM returns a codec that encrypts with the first key and decrypts with all. To change
// keys, add the new key to all processes, then make it the first in all, and remove the old
// one when no job is left that was encrypted with it. NewAESGCM copies the secrets. It returns
// an error for an ID or a secret of a wrong length, and for two keys with one ID.
func NewAESGCM(first Key, others ...Key) (*AESGCM, error) {
	c := &AESGCM{first: first.ID, keys: map[string]*derivingKey{}}
	for _, key := range append([]Key{first}, others...) {
		switch {
		case key.ID == "" || len(key.ID) > MaxNameBytes:
			return nil, fmt.Errorf("making an AES-GCM codec: ID of a key must have from 1 to %d bytes (has %d)", MaxNameBytes, len(key.ID))
		case len(key.Secret) != KeyBytes:
			return nil, fmt.Errorf("making an AES-GCM codec: Secret of key %q must have %d bytes (has %d)", key.ID, KeyBytes, len(key.Secret))
		case c.keys[key.ID] != nil:
			return nil, fmt.Errorf("making an AES-GCM codec: ID of a key must be unique (two have %q)", key.ID)
		}
		deriving, err := newDerivingKey(key.Secret)
		if err != nil {
			return nil, fmt.Errorf("making an AES-GCM codec: key %q: %w", key.ID, err)
		}
		c.keys[key.ID] = deriving
	}
	return c, nil
}

// Name returns "xaes-256-gcm".
func (c *AESGCM) Name() string { return "xaes-256-gcm" }

// Encode encrypts a value with the first key.
func (c *AESGCM) Encode(field Field, plain []byte) (keyID string, encoded []byte, err error) {
	nonce := make([]byte, nonceBytes, nonceBytes+len(plain)+tagBytes)
	_, _ = rand.Read(nonce) // never fails
	sealed, err := c.keys[c.first].seal(nonce, nonce, plain, field.AssociatedData())
	return c.first, sealed, err
}

var errNotAuthentic = errors.New("the encrypted data was changed, or belongs to another job, queue, type or field")

// Decode decrypts a value. The error is an *UnknownKeyError if the codec does not have the key.
func (c *AESGCM) Decode(field Field, keyID string, encoded []byte) ([]byte, error) {
	key := c.keys[keyID]
	if key == nil {
		return nil, &UnknownKeyError{Codec: c.Name(), KeyID: keyID}
	}
	if len(encoded) < nonceBytes+tagBytes {
		return nil, fmt.Errorf("decrypting with key %q: data must have at least %d bytes (has %d)", keyID, nonceBytes+tagBytes, len(encoded))
	}
	plain, err := key.open(encoded[:nonceBytes], encoded[nonceBytes:], field.AssociatedData())
	if err != nil {
		return nil, fmt.Errorf("decrypting with key %q: %w", keyID, errNotAuthentic)
	}
	return plain, nil
}

// The lengths that XAES-256-GCM adds to a value.
const (
	nonceBytes = 24
	tagBytes   = 16
)

// derivingKey derives the key of each value by CMAC from the first half of its nonce.
type derivingKey struct {
	block cipher.Block
	mask  [aes.BlockSize]byte // K1 of CMAC
}

func newDerivingKey(secret []byte) (*derivingKey, error) {
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	k := &derivingKey{block: block}
	block.Encrypt(k.mask[:], k.mask[:])
	var carry byte
	for i := len(k.mask) - 1; i >= 0; i-- {
		k.mask[i], carry = k.mask[i]<<1|carry, k.mask[i]>>7
	}
	k.mask[len(k.mask)-1] ^= carry * 0x87
	return k, nil
}

// aead returns the cipher of a value.
func (k *derivingKey) aead(nonce []byte) (cipher.AEAD, error) {
	var derived [KeyBytes]byte
	for n := range 2 {
		half := derived[n*aes.BlockSize : (n+1)*aes.BlockSize]
		copy(half, []byte{0, byte(n + 1), 'X', 0})
		copy(half[4:], nonce[:nonceBytes/2])
		subtle.XORBytes(half, half, k.mask[:])
		k.block.Encrypt(half, half)
	}
	block, err := aes.NewCipher(derived[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// seal appends the encrypted value to dst.
func (k *derivingKey) seal(dst, nonce, plain, data []byte) ([]byte, error) {
	aead, err := k.aead(nonce)
	if err != nil {
		return nil, err
	}
	return aead.Seal(dst, nonce[nonceBytes/2:nonceBytes], plain, data), nil
}

func (k *derivingKey) open(nonce, sealed, data []byte) ([]byte, error) {
	aead, err := k.aead(nonce)
	if err != nil {
		return nil, err
	}
	return aead.Open(nil, nonce[nonceBytes/2:], sealed, data)
}
