package driver

import "encoding/binary"

// HasPart reports whether a text contains a part. The case of the letters A to Z does not matter,
// and that of other letters does, as in SQL.
func HasPart(text, part string) bool {
	for i := 0; i+len(part) <= len(text); i++ {
		if startsWith(text[i:], part) {
			return true
		}
	}
	return false
}

// startsWith reports whether a text, which is at least as long as a part, starts with it.
func startsWith(text, part string) bool {
	for i := range len(part) {
		if text[i] != part[i] && lowerByte(text[i]) != lowerByte(part[i]) {
			return false
		}
	}
	return true
}

// LowerPart returns a part with the letters A to Z in lower case, to be searched for in a text that
// was converted likewise.
func LowerPart(part string) string { return string(AppendLower(nil, part)) }

// AppendLower appends a text with the letters A to Z in lower case.
func AppendLower[Text string | []byte](to []byte, text Text) []byte {
	from := len(to)
	to = append(to, text...)
	rest := to[from:]
	for ; len(rest) >= 8; rest = rest[8:] {
		binary.LittleEndian.PutUint64(rest, lowerBytes(binary.LittleEndian.Uint64(rest)))
	}
	for i, b := range rest {
		rest[i] = lowerByte(b)
	}
	return to
}

// lowerBytes is lowerByte for eight bytes at once.
func lowerBytes(eight uint64) uint64 {
	const each, high = 0x0101010101010101, 0x8080808080808080
	low := eight &^ high
	fromA, afterZ := low+each*(0x80-'A'), low+each*(0x80-'Z'-1) // their high bits
	return eight | (fromA&^afterZ&^eight&high)>>2
}

func lowerByte(b byte) byte {
	if 'A' <= b && b <= 'Z' {
		b += 'a' - 'A'
	}
	return b
}
