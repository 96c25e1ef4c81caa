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
