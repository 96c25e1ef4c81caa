package mongodb

import "sync/atomic"

// contention controls how many candidates a claim chooses from: twice as many each time that other
// processes claimed some first.
type contention struct{ doubled atomic.Int32 }

// maxDoubled is the maximum number of times that this number is doubled.
const maxDoubled = 3

func (c *contention) factor() int { return 1 << c.doubled.Load() }

// observe records how many of the chosen candidates other processes claimed first.
func (c *contention) observe(lost, chosen int) {
	doubled := c.doubled.Load()
	switch {
	case lost > 0 && doubled < maxDoubled:
		doubled++
	case lost == 0 && chosen > 0 && doubled > 0:
		doubled--
	}
	c.doubled.Store(doubled)
}
