package dashboard_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestVendoredFiles checks that the vendored files match the manifest, and that they are
// served.
func TestVendoredFiles(t *testing.T) {
	const dir = "assets/vendor"
	encoded, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	require.NoError(t, err)
	var manifest []struct{ File, SHA256 string }
	var raw []map[string]string
	require.NoError(t, json.Unmarshal(encoded, &raw))
	require.NoError(t, json.Unmarshal(encoded, &manifest))
	files := map[string]bool{"manifest.json": true}
	s := newSite(newFake(), "")
	for i, entry := range manifest {
		for _, field := range []string{"file", "name", "version", "license", "license_file", "source", "path", "sha256"} {
			assert.NotEmpty(t, raw[i][field], "%s of %s", field, entry.File)
		}
		var content []byte
		content, err = os.ReadFile(filepath.Join(dir, entry.File))
		require.NoError(t, err)
		sum := sha256.Sum256(content)
		assert.Equal(t, entry.SHA256, hex.EncodeToString(sum[:]), entry.File)
		assert.FileExists(t, filepath.Join(dir, raw[i]["license_file"]))
		files[entry.File], files[raw[i]["license_file"]] = true, true

		w := s.get("/assets/vendor/" + entry.File)
		assert.Equal(t, http.StatusOK, w.Code)
		assert.Equal(t, content, w.Body.Bytes())
		assert.Contains(t, w.Header().Get("Cache-Control"), "immutable")
	}
	found, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, file := range found {
		assert.True(t, files[file.Name()], "%s is not in the manifest", file.Name())
	}
}
