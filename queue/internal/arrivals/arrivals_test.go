package arrivals_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/internal/arrivals"
)

// walk reads a list in both directions.
func walk(l *arrivals.List[uint64]) (forward, backward []uint64) {
	for n := l.Next(0); n != nil; n = l.Next(*n) {
		forward = append(forward, *n)
	}
	for n := l.Previous(math.MaxUint64); n != nil; n = l.Previous(*n) {
		backward = append(backward, *n)
	}
	return forward, backward
}

// TestListIsInOrder adds and removes numbers with gaps between them, and compares the list
// with a slice.
func TestListIsInOrder(t *testing.T) {
	for _, fifo := range []bool{true, false} {
		random := rand.New(rand.NewPCG(1, 2))
		var list arrivals.List[uint64]
		var want []uint64
		number := uint64(0)
		for step := range 3000 {
			// The list grows, and then shrinks.
			if len(want) == 0 || random.IntN(3000) > step {
				number += 1 + random.Uint64N(2)
				added := number
				list.Add(number, &added)
				want = append(want, number)
			} else {
				at := 0
				if !fifo {
					at = random.IntN(len(want))
				}
				list.Remove(want[at])
				want = slices.Delete(want, at, at+1)
			}
			asked := random.Uint64N(number + 2)
			at, _ := slices.BinarySearch(want, asked+1)
			if next := list.Next(asked); at < len(want) {
				require.Equal(t, want[at], *next)
			} else {
				require.Nil(t, next)
			}
		}
		forward, backward := walk(&list)
		assert.Equal(t, want, slices.AppendSeq(want[:0:0], slices.Values(forward)))
		slices.Reverse(backward)
		assert.Equal(t, forward, backward)
		var all []uint64
		for n := range list.All {
			all = append(all, *n)
		}
		assert.Equal(t, forward, all)
	}
}

func TestEmptyList(t *testing.T) {
	var list arrivals.List[uint64]
	assert.Nil(t, list.Next(0))
	assert.Nil(t, list.Previous(math.MaxUint64))
}
