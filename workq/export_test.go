package workq

// Waiting returns the number of commands that wait for results.
func (s *Server) Waiting() (n int) {
	s.waiters.mu.Lock()
	defer s.waiters.mu.Unlock()
	for _, w := range s.waiters.byID {
		for ; w != nil; w = w.before {
			n++
		}
	}
	return n
}

// IsHTTP reports whether a line ends the connection, because it is of HTTP.
var IsHTTP = isHTTP

// BlockOf returns the size of the block that follows a line: 0 and false for none. bad is true
// if it can't be known.
func BlockOf(line string) (size int, has, bad bool) {
	var c command
	c.parse(line)
	has, bad = c.hasBlock()
	return c.size, has, bad
}
