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

// Wait for the same time before each attempt.
func ExampleFixed() {
	policy := retry.Fixed{Wait: time.Minute}
	fmt.Println(policy.Delay(0), policy.Delay(7))
	// Output: 1m0s 1m0s
}

// The wait grows with the fourth power of the attempt, and has a random part of a tenth.
func ExamplePolynomial() {
	policy := retry.Polynomial{Unit: time.Second, Max: time.Hour}
	second := policy.Delay(1) // about 16 s
	fmt.Println(second > 10*time.Second, second < 20*time.Second, policy.Delay(9))
	// Output: true true 1h0m0s
}

// The waits of Sidekiq have a random part.
func ExampleSidekiq() {
	policy := retry.Sidekiq{Max: time.Hour}
	fmt.Println(policy.Delay(0) < policy.Delay(5), policy.Delay(100))
	// Output: true 1h0m0s
}
