package memory_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/drivertest"
	"github.com/mongodb/amboy/queue/driver/memory"
)

func TestConformance(t *testing.T) {
	drivertest.Run(t, drivertest.Harness{Open: func(t *testing.T) driver.Driver {
		d, err := memory.New(memory.Options{KeepFinished: 10_000})
		require.NoError(t, err)
		return d
	}})
}
