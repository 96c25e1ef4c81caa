package typelimit

import (
	"encoding/json"
	"fmt"

	"github.com/mongodb/amboy"
)

// EncodeLimits returns the stored form of the limits of a queue's types; empty if there are none.
func EncodeLimits(limits map[string]amboy.TypeLimit) (string, error) {
	if len(limits) == 0 {
		return "", nil
	}
	return encode(limits)
}

// DecodeLimits reads what EncodeLimits wrote.
func DecodeLimits(stored string) (limits map[string]amboy.TypeLimit, err error) {
	err = decode(stored, &limits)
	return limits, err
}

// Encode returns the stored form of the buckets; empty if there are none.
func (b Buckets) Encode() (string, error) {
	if len(b) == 0 {
		return "", nil
	}
	return encode(b)
}

// DecodeBuckets reads what Encode wrote.
func DecodeBuckets(stored string) (b Buckets, err error) {
	b = Buckets{}
	err = decode(stored, &b)
	return b, err
}

func encode(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encoding the limits of types: %w", err)
	}
	return string(text), nil
}

func decode(stored string, to any) error {
	if stored == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(stored), to); err != nil {
		return fmt.Errorf("decoding the limits of types: %w", err)
	}
	return nil
}
