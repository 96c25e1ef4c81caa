// Package nameset treats lists of names, such as scopes and job IDs, as sets.
package nameset

import "slices"

// Without returns the names that are not among others, each once.
func Without(names, others []string) []string {
	var left []string
	for _, name := range names {
		if !slices.Contains(others, name) && !slices.Contains(left, name) {
			left = append(left, name)
		}
	}
	return left
}
