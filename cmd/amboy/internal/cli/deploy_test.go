package cli_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const deploy = "../../../../deploy/"

func readDeployed(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(deploy + name)
	require.NoError(t, err)
	return string(content)
}

// isCommand requires that arguments are a command of the tool with flags that exist.
func isCommand(t *testing.T, args []string) {
	t.Helper()
	require.Equal(t, "serve", args[0])
	r := runIn(t.Context(), nil, noVariables, append(args, "--help")...)
	assert.Zero(t, r.code, r.errOut)
}

// TestImageRunsACommand checks what can be checked without a container runtime.
func TestImageRunsACommand(t *testing.T) {
	command := regexp.MustCompile(`(?m)^CMD (\[.*\])$`).FindStringSubmatch(readDeployed(t, "Dockerfile"))
	require.NotNil(t, command)
	var args []string
	require.NoError(t, json.Unmarshal([]byte(command[1]), &args))
	isCommand(t, args)
}

func TestUnitIsValid(t *testing.T) {
	unit := readDeployed(t, "amboy.service")
	command := regexp.MustCompile(`(?m)^ExecStart=(\S+) (.*)$`).FindStringSubmatch(unit)
	require.NotNil(t, command)
	isCommand(t, strings.Fields(command[2]))
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	own, err := os.Executable() // verify wants an executable that exists
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "amboy.service")
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(unit, command[1], own, 1)), 0o600))
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.NotContains(t, string(out), file, "%s", out)
}
