package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func Example() {
	main()
	// Output:
	// hello, world
	// all done: true error: <nil>
}

// TestREADMEShowsThisProgram checks that the first program of the README is this one.
func TestREADMEShowsThisProgram(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	program, err := os.ReadFile("main.go")
	require.NoError(t, err)
	_, after, found := strings.Cut(string(readme), "```go\n")
	require.True(t, found, "the README has no program")
	shown, _, _ := strings.Cut(after, "```")
	assert.Equal(t, string(program), shown)

	lines := 0
	for line := range strings.Lines(shown) {
		if strings.TrimSpace(line) != "" {
			lines++
		}
	}
	assert.Less(t, lines, 20, "lines of the first job, imports included")
}
