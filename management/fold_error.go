package management

import (
	"strings"
	"unicode/utf8"
)

const (
	// maxFolded is the maximum length of a folded message, and maxUnfolded is how much of a
	// message is read to fold it, so that the cost of a long message is bounded.
	maxFolded   = 512
	maxUnfolded = 8 << 10
	// A hexadecimal word is an ID if it has at least hexWord characters and one of them is
	// from 0 to 9, or if it has at least hexLetters characters.
	hexWord    = 6
	hexLetters = 16
	// idWord is the minimum length of other IDs, which have at least two digits.
	idWord = 16
	// quotedID is the maximum length of a quoted ID.
	quotedID = 256
)

// folded replaces what varies between messages of the same kind.
const folded = '#'

// FoldError returns what an error message has in common with others of its kind: each number,
// time, address, hexadecimal string, UUID and ObjectID, and each quoted word with a digit, is
// replaced by "#". Control characters and bytes that are not UTF-8 are replaced by spaces. The
// result has at most 512 bytes: a longer message is cut. It is empty for an empty message only.
// Folding a folded message does not change it. The time that it takes does not grow beyond that of
// a message of 8 KiB.
func FoldError(message string) string {
	if len(message) > maxUnfolded {
		message = message[:maxUnfolded]
	}
	f := folder{rest: message}
	for f.rest != "" && f.out.Len() <= maxFolded {
		f.step()
	}
	text := f.out.String()
	text = strings.ToValidUTF8(text[:min(len(text), maxFolded)], "") // without the rest of a cut character
	text = strings.TrimSpace(text)
	if text == "" && message != "" {
		return string(folded) // an empty message of a group would select all jobs
	}
	return text
}

// folder folds a message from left to right. Each step takes at least one byte of the rest,
// and looks at most quotedID bytes ahead, except in a word, which it takes as a whole.
type folder struct {
	rest string
	out  strings.Builder
}

// step takes the next word or character.
func (f *folder) step() {
	c := f.rest[0]
	switch {
	case c == '"' || c == '\'' || c == '`':
		f.quoted(c)
	case isAlnum(c):
		f.word()
	default:
		r, size := utf8.DecodeRuneInString(f.rest)
		if r == utf8.RuneError || r < ' ' || r >= 0x7f && r < 0xa0 {
			r = ' '
		}
		f.out.WriteRune(r)
		f.rest = f.rest[size:]
	}
}

// quoted takes a quoted ID, or else the quote.
func (f *folder) quoted(quote byte) {
	f.out.WriteByte(quote)
	f.rest = f.rest[1:]
	end := strings.IndexByte(f.rest[:min(len(f.rest), quotedID)], quote)
	if end < 0 {
		return
	}
	inner := f.rest[:end]
	if strings.ContainsAny(inner, "0123456789") && !strings.ContainsAny(inner, " \t\r\n") {
		f.fold(end)
	}
}

// fold replaces the first bytes of the rest.
func (f *folder) fold(size int) {
	f.out.WriteByte(folded)
	f.rest = f.rest[size:]
}

// word takes a word of ASCII letters and digits, or a number, a time or an address that
// continues beyond it.
func (f *folder) word() {
	if n := uuidLength(f.rest); n > 0 {
		f.fold(n)
		return
	}
	size, digits, hex := 0, 0, true
	for size < len(f.rest) && isAlnum(f.rest[size]) {
		if isDigit(f.rest[size]) {
			digits++
		} else if !isHex(f.rest[size]) {
			hex = false
		}
		size++
	}
	word := f.rest[:size]
	isPrefixed := len(word) > 2 && (strings.HasPrefix(word, "0x") || strings.HasPrefix(word, "0X"))
	switch {
	case isPrefixed, hex && digits > 0 && size >= hexWord, hex && size >= hexLetters, digits > 1 && size >= idWord:
		f.fold(size)
	case digits == 0:
		f.out.WriteString(word)
		f.rest = f.rest[size:]
	default:
		f.numbers()
	}
}

// numbers takes the letters before the first number of a word, and the number.
func (f *folder) numbers() {
	start := strings.IndexAny(f.rest, "0123456789")
	f.out.WriteString(f.rest[:start])
	f.rest = f.rest[start:]
	f.fold(numberLength(f.rest))
}

// numberLength returns the length of the number, time, duration or address at the beginning of
// a text: digits, joined by letters of units or by a sign that another digit follows.
func numberLength(text string) int {
	size := 0
	for size < len(text) {
		switch {
		case isDigit(text[size]):
			size++
			continue
		case size+1 < len(text) && isDigit(text[size+1]) && strings.IndexByte(".,:-+/T", text[size]) >= 0:
			size += 2
			continue
		}
		unit := unitLength(text[size:])
		if unit == 0 {
			break
		}
		size += unit
		if size == len(text) || !isDigit(text[size]) {
			break
		}
	}
	return size
}

// units are those of a time.Duration, and the zone of a time in UTC.
var units = []string{"ns", "us", "µs", "ms", "s", "m", "h", "Z"}

// unitLength returns the length of the unit that a text begins with; 0 if it has none, or if
// the word continues with a letter.
func unitLength(text string) int {
	for _, unit := range units {
		if after, ok := strings.CutPrefix(text, unit); ok && (after == "" || !isLetter(after[0])) {
			return len(unit)
		}
	}
	return 0
}

// uuidParts are the lengths of the parts of a UUID.
var uuidParts = [...]int{8, 4, 4, 4, 12}

// uuidLength returns the length of the UUID that a text begins with; 0 if it has none.
func uuidLength(text string) int {
	const length = 36
	if len(text) < length || len(text) > length && isAlnum(text[length]) {
		return 0
	}
	at := 0
	for i, part := range uuidParts {
		if i > 0 {
			if text[at] != '-' {
				return 0
			}
			at++
		}
		for range part {
			if !isHex(text[at]) {
				return 0
			}
			at++
		}
	}
	return at
}

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isAlnum(c byte) bool  { return isDigit(c) || isLetter(c) }
func isHex(c byte) bool    { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }

// constantPart returns the longest part of a folded message that each message of its group
// contains; empty if there is none that narrows a search. What folding changes does not
// count: "#", spaces, which may have been other characters, and the end, which may be cut.
func constantPart(message string) string {
	longest := ""
	for part := range strings.FieldsFuncSeq(message, func(r rune) bool { return r == folded || r == ' ' || r == utf8.RuneError }) {
		if len(part) > len(longest) {
			longest = part
		}
	}
	return longest
}
