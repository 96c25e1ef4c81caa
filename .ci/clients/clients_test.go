// Package clients generates clients from the description of the API with their default settings,
// and runs a small program with each against a server.
package clients

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	// What generated code imports.
	_ "github.com/getkin/kin-openapi/openapi3"
	_ "github.com/labstack/echo/v4"
	_ "github.com/oapi-codegen/runtime"
	_ "github.com/ogen-go/ogen/otelogen"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/rest"
)

const token = "token-of-the-test"

var fixed atomic.Bool

var resize = job.Define("resize", 1, func(_ context.Context, _ struct{}) error {
	if fixed.Load() {
		return nil
	}
	return errors.New("no such file")
})

// newServer serves a queue with three failed jobs, which succeed if they are retried. It returns the
// URL of the description's server.
func newServer(t *testing.T) string {
	store, err := memory.New(memory.Options{KeepFinished: 100})
	require.NoError(t, err)
	group, err := queue.NewDriverGroup(t.Context(), queue.DriverGroupOptions{
		DefaultQueue: queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1},
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, group.Close(context.Background())) })
	q, err := group.Get(t.Context(), "images")
	require.NoError(t, err)
	fixed.Store(false)
	for _, id := range []string{"a", "b", "c"} {
		_, err = resize.Put(t.Context(), q, struct{}{}, job.ID(id))
		require.NoError(t, err)
	}
	require.True(t, amboy.Wait(t.Context(), q))
	fixed.Store(true)
	inspector, err := management.NewGroupInspector(group)
	require.NoError(t, err)
	server := httptest.NewServer(rest.Handler(inspector, rest.Authorize(func(r *http.Request, _ rest.Access) error {
		if r.Header.Get("Authorization") != "Bearer "+token {
			return rest.ErrUnauthenticated
		}
		return nil
	})))
	t.Cleanup(server.Close)
	return server.URL + "/v2"
}

const output = `failed: a no such file
failed: b no such file
failed: c no such file
would retry: 3
retried: 3
ended: 3
`

// description is the file that the service serves.
const description = "../../rest/internal/api/openapi.json"

func run(t *testing.T, directory, name string, args ...string) string {
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir = directory
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s %q: %s", name, args, out)
	return string(out)
}

// build builds the program of a folder of testdata with the generated files of a directory as its
// package api.
func build(t *testing.T, program, generated string) (binary string) {
	here, err := filepath.Abs(filepath.Join("testdata", program))
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(generated, "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	replace := map[string]string{}
	for _, file := range files {
		replace[filepath.Join(here, "api", filepath.Base(file))] = file
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	directory := t.TempDir()
	list := filepath.Join(directory, "overlay.json")
	require.NoError(t, os.WriteFile(list, overlay, 0o600))
	binary = filepath.Join(directory, program)
	run(t, here, "go", "build", "-overlay", list, "-o", binary, ".")
	return binary
}

func TestOgen(t *testing.T) {
	generated := t.TempDir()
	run(t, ".", "go", "tool", "ogen", "--target", generated, "--package", "api", "--clean", description)
	assert.Equal(t, output, run(t, ".", build(t, "ogen", generated), newServer(t), token))
}

func TestOapiCodegen(t *testing.T) {
	generated := t.TempDir()
	run(t, ".", "go", "tool", "oapi-codegen", "-package", "api", "-o", filepath.Join(generated, "api.go"), description)
	assert.Equal(t, output, run(t, ".", build(t, "oapi-codegen", generated), newServer(t), token))
}

func TestOpenAPITypeScript(t *testing.T) {
	modules := needModules(t)
	directory := t.TempDir()
	require.NoError(t, os.Symlink(modules, filepath.Join(directory, "node_modules")))
	program, err := os.ReadFile("testdata/typescript/main.ts")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(directory, "main.ts"), program, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(directory, "package.json"), []byte(`{"type": "module"}`), 0o600))
	run(t, ".", filepath.Join(modules, ".bin", "openapi-typescript"), description, "-o", filepath.Join(directory, "api.d.ts"))
	run(t, directory, filepath.Join(modules, ".bin", "tsc"), "--strict", "--target", "es2023", "--module", "nodenext", "--types", "node", "main.ts")
	assert.Equal(t, output, run(t, directory, "node", "main.js", newServer(t), token))
}

// TestRedocly checks the recommended rules; redocly.yaml says which one is off.
func TestRedocly(t *testing.T) {
	t.Log(run(t, ".", filepath.Join(needModules(t), ".bin", "redocly"), "lint", "--max-problems", "10", description))
}

// needModules returns the folder of what npm has installed.
func needModules(t *testing.T) string {
	modules, err := filepath.Abs("node_modules")
	require.NoError(t, err)
	if _, err := os.Stat(modules); err != nil {
		if os.Getenv("CI") == "" {
			t.Skip("not installed: run npm ci --prefix .ci/clients")
		}
		require.NoError(t, err)
	}
	return modules
}
