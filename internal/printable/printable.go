// Package printable makes texts that came from outside safe to be shown: on a terminal, on
// a page, or in a line of a log.
package printable

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text writes what is not printable as in a Go string: control characters, such as line
// breaks and those that move the cursor of a terminal, characters that reorder what is
// shown, and bytes that are not UTF-8.
func Text(text string) string {
	return clean(text, func(r rune) bool { return r != utf8.RuneError && unicode.IsPrint(r) })
}

// Lines does the same for a text of several lines: line breaks and tabs stay.
func Lines(text string) string {
	return clean(strings.ReplaceAll(text, "\r\n", "\n"), func(r rune) bool {
		return r == '\n' || r == '\t' || r != utf8.RuneError && unicode.IsPrint(r)
	})
}

// Is reports whether Text leaves a text as it is.
func Is(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) < 0
}

func clean(text string, stays func(rune) bool) string {
	if strings.IndexFunc(text, func(r rune) bool { return !stays(r) }) < 0 {
		return text
	}
	var b strings.Builder
	for text != "" {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case stays(r):
			b.WriteRune(r)
		default: // also for what may stand for a byte that is not UTF-8
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
		text = text[size:]
	}
	return b.String()
}

// JSON does the same for JSON, and leaves it the same document. Its line breaks stay.
func JSON(document string) string {
	var b strings.Builder
	for _, r := range document {
		switch {
		case r == '\n' || unicode.IsPrint(r): // all others below a space are escaped already
			b.WriteRune(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
