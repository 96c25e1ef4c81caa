package api

import (
	"fmt"
	"strings"

	"github.com/mongodb/amboy/management"
)

// IdempotencyKey is the header that contains the idempotency key of a request.
const IdempotencyKey = "Idempotency-Key"

// CheckKey returns an error that names field, if key is not a valid idempotency key.
func CheckKey(field, key string) error {
	switch {
	case key == "" || len(key) > management.MaxIdempotencyKeyBytes:
		return invalid(field, key, fmt.Sprintf("must be from 1 to %d bytes long", management.MaxIdempotencyKeyBytes))
	case strings.ContainsFunc(key, func(c rune) bool { return c < '!' || c > '~' }):
		return invalid(field, key, "must contain only visible ASCII characters")
	default:
		return nil
	}
}
