package management

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mongodb/amboy/queue/driver"
)

// cursorVersion tells cursors apart that were given by another version.
const cursorVersion = 1

// digestLength is how much of a digest is in a cursor, in hexadecimal digits.
const digestLength = 16

// maxCursorBytes bounds what is decoded.
const maxCursorBytes = 16 << 10

// cursor is what the cursors say that people are given.
type cursor struct {
	Version int `json:"v"`
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

// encodeCursor makes a cursor of a place in a list; an empty one of an empty place.
func encodeCursor(list, after string) (string, error) {
	if after == "" {
		return "", nil
	}
	form, err := json.Marshal(cursor{Version: cursorVersion, List: list, After: after})
	if err != nil {
		return "", fmt.Errorf("encoding a cursor: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(form), nil
}

// decodeCursor returns the place in a list. It returns an *InvalidArgumentError for
// what encodeCursor did not make, and for a place in another list.
func decodeCursor(list, text string) (after string, err error) {
	if text == "" {
		return "", nil
	}
	if len(text) > maxCursorBytes {
		return "", badCursor(text)
	}
	form, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return "", badCursor(text)
	}
	var c cursor
	if json.Unmarshal(form, &c) != nil || c.Version != cursorVersion || c.After == "" {
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
