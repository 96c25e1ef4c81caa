// Package printable makes untrusted texts safe to be shown on a terminal, on a page, or in a
// line of a log.
package printable

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text escapes characters that are not printable as in a Go string: control characters such as
// line breaks and terminal commands, characters that reorder text, and bytes that are not valid
// UTF-8.
func Text(text string) string {
	return clean(text, func(r rune) bool { return r != utf8.RuneError && unicode.IsPrint(r) })
}

// Lines is like Text for a text of several lines: it keeps line breaks and tabs.
func Lines(text string) string {
	return clean(strings.ReplaceAll(text, "\r\n", "\n"), func(r rune) bool {
		return r == '\n' || r == '\t' || r != utf8.RuneError && unicode.IsPrint(r)
	})
}

// Is reports whether Text returns a text unchanged.
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
		default: // includes U+FFFD, which replaces invalid bytes
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
		text = text[size:]
	}
	return b.String()
}

// unescaped are the escapes with which package encoding/json makes text safe within HTML, and what
// they stand for. An escaped backslash is one of them, so that what follows it is not taken for one.
var unescaped = strings.NewReplacer(`\\`, `\\`, `\u003c`, "<", `\u003e`, ">", `\u0026`, "&")

// JSON is like Text for a JSON document. It keeps line breaks and the meaning of the document, and
// undoes the escapes of package encoding/json for HTML.
func JSON(document string) string {
	document = unescaped.Replace(document)
	var b strings.Builder
	for _, r := range document {
		switch {
		case r == '\n' || unicode.IsPrint(r): // JSON already escapes other control characters
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
