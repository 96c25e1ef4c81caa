package retry_test

import (
	"fmt"
	"time"

	"github.com/mongodb/amboy/retry"
)

func ExampleExponential() {
	policy := retry.Exponential{Base: 100 * time.Millisecond, Factor: 3, Max: 2 * time.Second}
	for attempt := range 4 {
		fmt.Println(policy.Delay(attempt))
	}
	// Output:
	// 100ms
	// 300ms
	// 900ms
	// 2s
}
