package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver/sqlite"
)

func TestBackupCopiesTheFileOfARunningService(t *testing.T) {
	dir := t.TempDir()
	file, copied := filepath.Join(dir, "jobs.db"), filepath.Join(dir, "copy.db")
	service, err := sqlite.Open(t.Context(), sqlite.Options{Path: file})
	require.NoError(t, err)
	defer func() { assert.NoError(t, service.Close(context.Background())) }()

	got := run(t, nil, "backup", file, copied)
	require.Zero(t, got.code, got.errOut)
	assert.Equal(t, "Copied "+file+" to "+copied+".\n", got.out)
	restored, err := sqlite.Open(t.Context(), sqlite.Options{Path: copied})
	require.NoError(t, err)
	require.NoError(t, restored.Check(t.Context()))
	require.NoError(t, restored.Close(t.Context()))

	again := run(t, nil, "backup", file, copied)
	assert.Equal(t, 1, again.code)
	assert.Contains(t, again.errOut, "file exists")
	asJSON := run(t, nil, "backup", file, copied+"2", "-o", "json")
	assert.JSONEq(t, `{"file": "`+file+`", "copy": "`+copied+`2"}`, asJSON.out)
}

func TestBackupRefusesBadInput(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	require.NoError(t, os.WriteFile(text, []byte("no database"), 0o600))
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no copy":     {[]string{text}, 2, "usage: amboy backup FILE COPY"},
		"no file":     {[]string{filepath.Join(dir, "missing"), filepath.Join(dir, "copy")}, 1, "no such file"},
		"no database": {[]string{text, filepath.Join(dir, "copy")}, 1, "is not a database"},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t, nil, append([]string{"backup"}, c.args...)...)
			assert.Equal(t, c.code, got.code)
			assert.Contains(t, got.errOut, c.says)
			assert.NoFileExists(t, filepath.Join(dir, "copy"))
		})
	}
}
