package api

import (
	"fmt"
	"strings"

	"github.com/mongodb/amboy/management"
)

// IdempotencyKey is the header of the idempotency key of a request.
const IdempotencyKey = "Idempotency-Key"

// CheckKey returns an error for an idempotency key that can't be that of a request, and
// names it as a field.
func CheckKey(field, key string) error {
	switch {
	case key == "" || len(key) > management.MaxIdempotencyKeyBytes:
		return invalid(field, key, fmt.Sprintf("must be from 1 to %d bytes long", management.MaxIdempotencyKeyBytes))
	case strings.ContainsFunc(key, func(c rune) bool { return c < '!' || c > '~' }):
		return invalid(field, key, "must be visible characters of ASCII")
	default:
		return nil
	}
}
