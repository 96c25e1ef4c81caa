// Package envelope wraps what a codec makes of a stored body, with what is needed to decode
// it. An envelope is
//
//	version (1)  length and name of the codec  length and ID of the key  encoded value
//
// with lengths of one byte. The value that the codec is given is the form of the body (0 for
// BSON, 1 for JSON) followed by its bytes. That an envelope is no plain body is part of the
// type registry.Body and of how it is stored.
package envelope

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/codec"
	"github.com/mongodb/amboy/registry"
)

const version = 1

const (
	bsonForm byte = 0
	jsonForm byte = 1
)

// Seal encodes a plain body.
func Seal(c codec.Codec, field codec.Field, plain registry.Body) (sealed registry.Body, err error) {
	defer recoverTo(&err)
	form := bsonForm
	if plain.IsJSON() {
		form = jsonForm
	}
	value := append(make([]byte, 0, 1+len(plain.Raw())), form)
	name := c.Name()
	keyID, encoded, err := c.Encode(field, append(value, plain.Raw()...))
	switch {
	case err != nil:
		return registry.Body{}, fmt.Errorf("codec %q: %w", name, err)
	case name == "" || len(name) > codec.MaxNameBytes:
		return registry.Body{}, fmt.Errorf("the name of a codec must have from 1 to %d bytes (is %q)", codec.MaxNameBytes, name)
	case len(keyID) > codec.MaxNameBytes:
		return registry.Body{}, fmt.Errorf("codec %q: the ID of a key must have at most %d bytes (is %q)", name, codec.MaxNameBytes, keyID)
	}
	raw := make([]byte, 0, 3+len(name)+len(keyID)+len(encoded))
	raw = append(raw, version)
	raw = append(append(raw, byte(len(name))), name...)
	raw = append(append(raw, byte(len(keyID))), keyID...)
	return registry.NewSealedBody(append(raw, encoded...)), nil
}

// Open decodes a sealed body. c is nil if the queue has no codec. The error wraps
// codec.ErrKeyUnavailable if another codec, or one with other keys, may decode the body.
func Open(c codec.Codec, field codec.Field, sealed registry.Body) (plain registry.Body, err error) {
	defer recoverTo(&err)
	name, keyID, encoded, err := parse(sealed.Raw())
	switch {
	case err != nil:
		return registry.Body{}, err
	case c == nil:
		return registry.Body{}, fmt.Errorf("it was encoded by codec %q with key %q, and its queue has no codec in this process: %w", name, keyID, codec.ErrKeyUnavailable)
	case c.Name() != name:
		return registry.Body{}, fmt.Errorf("it was encoded by codec %q with key %q, and its queue has codec %q in this process: %w", name, keyID, c.Name(), codec.ErrKeyUnavailable)
	}
	value, err := c.Decode(field, keyID, encoded)
	var unknown *codec.UnknownKeyError
	switch {
	case errors.As(err, &unknown):
		return registry.Body{}, err // names the codec
	case err != nil:
		return registry.Body{}, fmt.Errorf("decoding it by codec %q: %w", name, err)
	}
	if len(value) == 0 || value[0] > jsonForm {
		return registry.Body{}, fmt.Errorf("codec %q decoded it to a value that no body has", name)
	}
	return registry.NewBody(value[1:], value[0] == jsonForm), nil
}

// SameKey reports whether two bodies were sealed by the same codec with the same key.
func SameKey(a, b registry.Body) bool {
	if !a.IsSealed() || !b.IsSealed() {
		return false
	}
	nameOfA, keyOfA, _, err := parse(a.Raw())
	if err != nil {
		return false
	}
	nameOfB, keyOfB, _, err := parse(b.Raw())
	return err == nil && nameOfA == nameOfB && keyOfA == keyOfB
}

var errMalformed = errors.New("its envelope is damaged")

// parse returns the parts of an envelope.
func parse(raw []byte) (name, keyID string, encoded []byte, err error) {
	if len(raw) == 0 {
		return "", "", nil, errMalformed
	}
	if raw[0] != version {
		return "", "", nil, fmt.Errorf("its envelope has version %d, which this process does not know: %w", raw[0], codec.ErrKeyUnavailable)
	}
	name, rest, ok := cutText(raw[1:])
	if !ok || name == "" {
		return "", "", nil, errMalformed
	}
	keyID, encoded, ok = cutText(rest)
	if !ok {
		return "", "", nil, errMalformed
	}
	return name, keyID, encoded, nil
}

// cutText returns a text that begins with its length, and what follows it.
func cutText(raw []byte) (text string, rest []byte, ok bool) {
	if len(raw) == 0 {
		return "", nil, false
	}
	length := int(raw[0])
	if length > codec.MaxNameBytes || len(raw) < 1+length {
		return "", nil, false
	}
	return string(raw[1 : 1+length]), raw[1+length:], true
}

// recoverTo stores a panic of a codec in err.
func recoverTo(err *error) {
	if value := recover(); value != nil {
		*err = &amboy.PanicError{Value: value, Stack: debug.Stack()}
	}
}
