package memory

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSortedQueuesAreThoseOfAMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var sorted sortedQueues
	want := map[string]*queue{}
	check := func() {
		var names []string
		for q := range sorted.from("") {
			names = append(names, q.name)
		}
		require.Equal(t, slices.Sorted(maps.Keys(want)), names)
		for n, c := range sorted.chunks {
			require.NotEmpty(t, c)
			require.LessOrEqual(t, len(c), maxChunk)
			if n > 0 {
				require.Greater(t, len(c)+len(sorted.chunks[n-1]), maxChunk/4, "chunks are not all small")
			}
		}
	}
	check()
	for _, most := range []int{5000, 30, 3000, 0} {
		for n := 0; len(want) != most; n++ {
			name := fmt.Sprint(random.IntN(20_000))
			q, isListed := want[name]
			switch {
			case isListed && (len(want) > most || random.IntN(4) == 0):
				sorted.remove(q)
				delete(want, name)
			case !isListed && len(want) < most:
				want[name] = &queue{name: name}
				sorted.add(want[name])
			}
			if n%1000 == 0 {
				check()
			}
		}
		check()
		for q := range sorted.from("4") {
			require.GreaterOrEqual(t, q.name, "4")
			break
		}
	}
	require.Empty(t, sorted.chunks)
}
