package driver_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy/queue/driver"
)

func TestOneChangeStandsForTwo(t *testing.T) {
	cancel := driver.Change{Cancels: true}
	inA, inB := driver.In("a"), driver.In("b")
	inACanceling := inA
	inACanceling.Cancels = true
	anywhereCanceling := driver.Anywhere
	anywhereCanceling.Cancels = true
	for _, test := range []struct{ one, other, both driver.Change }{
		{inA, inA, inA},
		{inA, inB, driver.Anywhere},
		{inA, driver.Change{}, inA},
		{cancel, driver.Change{}, cancel},
		{cancel, inA, inACanceling},
		{inACanceling, inA, inACanceling},
		{inACanceling, inB, anywhereCanceling},
	} {
		assert.Equal(t, test.both, test.one.With(test.other))
		assert.Equal(t, test.both, test.other.With(test.one))
	}
}
