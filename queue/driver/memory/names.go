package memory

import (
	"cmp"
	"iter"
	"slices"
)

// maxChunk is the maximum number of queues in a chunk of sortedQueues.
const maxChunk = 512

// sortedQueues lists queues by name. Its chunks are not empty, are sorted, and follow each
// other in the order of names. A change moves the queues of one chunk, or two.
type sortedQueues struct{ chunks [][]*queue }

func compareName(q *queue, name string) int { return cmp.Compare(q.name, name) }

// find returns the chunk that contains a name, or is the first that could, and the position
// of the first queue in it whose name is not lower. The position may be the end of the last
// chunk.
func (s *sortedQueues) find(name string) (chunk, at int) {
	chunk, _ = slices.BinarySearchFunc(s.chunks, name, func(c []*queue, name string) int {
		return compareName(c[len(c)-1], name)
	})
	if chunk == len(s.chunks) {
		chunk--
	}
	if chunk >= 0 {
		at, _ = slices.BinarySearchFunc(s.chunks[chunk], name, compareName)
	}
	return chunk, at
}

// add adds a queue that is not listed.
func (s *sortedQueues) add(q *queue) {
	if len(s.chunks) == 0 {
		s.chunks = [][]*queue{{q}}
		return
	}
	n, at := s.find(q.name)
	c := slices.Insert(s.chunks[n], at, q)
	s.chunks[n] = c
	if len(c) > maxChunk {
		half := len(c) / 2
		if n == len(s.chunks)-1 {
			half = maxChunk // names are often added in their order
		}
		s.chunks = slices.Insert(s.chunks, n+1, slices.Clone(c[half:]))
		clear(c[half:])
		s.chunks[n] = slices.Clip(c[:half])
	}
}

// remove removes a queue that is listed. It joins a chunk that has become small with the next
// one, so that the memory shrinks with the number of queues.
func (s *sortedQueues) remove(q *queue) {
	n, at := s.find(q.name)
	s.chunks[n] = slices.Delete(s.chunks[n], at, at+1)
	if len(s.chunks[n]) == 0 {
		s.chunks = slices.Delete(s.chunks, n, n+1)
	}
	if n = min(n, len(s.chunks)-2); n >= 0 && len(s.chunks[n])+len(s.chunks[n+1]) <= maxChunk/2 {
		s.chunks[n] = slices.Concat(s.chunks[n], s.chunks[n+1])
		s.chunks = slices.Delete(s.chunks, n+1, n+2)
	}
	if len(s.chunks) == 0 {
		s.chunks = nil
	}
}

// from yields the queues in order, beginning with a name or the next one.
func (s *sortedQueues) from(name string) iter.Seq[*queue] {
	return func(yield func(*queue) bool) {
		n, at := s.find(name)
		for ; n >= 0 && n < len(s.chunks); n, at = n+1, 0 {
			for _, q := range s.chunks[n][at:] {
				if !yield(q) {
					return
				}
			}
		}
	}
}
