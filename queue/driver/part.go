package driver

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
	for i, b := range to[from:] {
		to[from+i] = lowerByte(b)
	}
	return to
}

func lowerByte(b byte) byte {
	if 'A' <= b && b <= 'Z' {
		b += 'a' - 'A'
	}
	return b
}
