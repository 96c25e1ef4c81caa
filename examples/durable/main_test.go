package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDurableJobRunsOnANewAndAnExistingFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jobs.db")
	for range 2 {
		require.NoError(t, run(t.Context(), file))
	}
}

// TestREADMEShowsThisProgram checks that the second program of the README is this one.
func TestREADMEShowsThisProgram(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	program, err := os.ReadFile("main.go")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(readme), "```go\n// Command durable ")
	shown, _, _ := strings.Cut(rest, "```")
	assert.Equal(t, string(program), "// Command durable "+shown)
}
