package activity

import (
	"encoding/binary"
	"errors"
	"math"
)

func appendInt(b []byte, n int64) []byte { return binary.AppendUvarint(b, uint64(max(n, 0))) }

func appendText(b []byte, text string) []byte {
	return append(appendInt(b, int64(len(text))), text...)
}

// reader decodes numbers and texts. After the first error it returns zero values.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = errors.New(what)
	}
	r.rest = nil
}

// end returns the first failure. More bytes than were read are one too.
func (r *reader) end() error {
	if r.err == nil && len(r.rest) > 0 {
		r.fail("more after the end")
	}
	return r.err
}

func (r *reader) nextByte() byte {
	if len(r.rest) == 0 {
		r.fail("unexpected end")
		return 0
	}
	first := r.rest[0]
	r.rest = r.rest[1:]
	return first
}

func (r *reader) number() int64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > math.MaxInt64 {
		r.fail("a number is truncated or too large")
		return 0
	}
	r.rest = r.rest[size:]
	return int64(n)
}

// length reads a number of items, each of which takes at least one byte.
func (r *reader) length() int {
	n := r.number()
	if n > int64(len(r.rest)) {
		r.fail("unexpected end")
		return 0
	}
	return int(n)
}

func (r *reader) text() string {
	n := r.length()
	text := string(r.rest[:n])
	r.rest = r.rest[n:]
	return text
}
