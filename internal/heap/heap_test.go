package heap_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/heap"
)

// element is a number that knows its position.
type element struct{ value, position int }

func before(a, b *element) bool  { return a.value < b.value }
func positionOf(e *element) *int { return &e.position }
func byValue(a, b *element) int  { return cmp.Compare(a.value, b.value) }

func values(elements []*element) (all []int) {
	for _, e := range elements {
		all = append(all, e.value)
	}
	return all
}

// TestElementsComeInOrderWhateverHappensToThem compares a heap with a sorted list.
func TestElementsComeInOrderWhateverHappensToThem(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	h := heap.New(before, positionOf)
	var model, outside []*element
	for range 20_000 {
		switch n := random.IntN(10); {
		case n < 4 || len(model) == 0:
			e := &element{value: random.IntN(50)}
			h.Put(e)
			model = append(model, e)
		case n < 6:
			first := h.Pop()
			require.Equal(t, slices.MinFunc(model, byValue).value, first.value)
			model = slices.DeleteFunc(model, func(e *element) bool { return e == first })
			outside = append(outside, first)
		case n < 8:
			e := model[random.IntN(len(model))]
			e.value = random.IntN(50)
			h.Put(e)
		default:
			i := random.IntN(len(model))
			h.Remove(model[i])
			h.Remove(model[i])
			outside = append(outside, model[i])
			model = slices.Delete(model, i, i+1)
		}
		require.Equal(t, len(model), h.Len())
	}
	for _, e := range outside {
		assert.Zero(t, e.position)
	}
	slices.SortFunc(model, byValue)
	assert.Equal(t, values(model), values(slices.SortedFunc(h.All(), byValue)))
	var rest []*element
	for h.Len() > 0 {
		assert.Equal(t, h.First().value, model[len(rest)].value)
		rest = append(rest, h.Pop())
	}
	assert.Equal(t, values(model), values(rest))
}

func TestElementsWithoutPositions(t *testing.T) {
	h := heap.New(func(a, b string) bool { return a < b }, nil)
	for _, s := range []string{"c", "a", "d", "b"} {
		h.Put(s)
	}
	var all []string
	for h.Len() > 0 {
		all = append(all, h.Pop())
	}
	assert.Equal(t, []string{"a", "b", "c", "d"}, all)
}

// TestOperationsAllocateNothing guards against boxed elements: heaps are on the path of every job.
func TestOperationsAllocateNothing(t *testing.T) {
	h := heap.New(func(a, b [3]int) bool { return a[0] < b[0] }, nil)
	for i := range 50 {
		h.Put([3]int{i})
	}
	assert.Zero(t, testing.AllocsPerRun(100, func() { h.Put(h.Pop()) }))
}

func TestAnEmptyHeapFreesItsMemory(t *testing.T) {
	h := heap.New(func(a, b int) bool { return a < b }, nil)
	allocations := testing.AllocsPerRun(10, func() {
		for i := range 1000 {
			h.Put(i)
		}
		for h.Len() > 0 {
			h.Pop()
		}
	})
	assert.Greater(t, allocations, 1.0)
}
