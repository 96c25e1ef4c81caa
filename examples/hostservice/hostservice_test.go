package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logtest"
	"github.com/mongodb/amboy/internal/pgtest"
)

// serveVariable makes a process of these tests run the service.
const serveVariable = "HOSTSERVICE_TEST_SERVE"

func TestMain(m *testing.M) {
	if os.Getenv(serveVariable) != "" {
		main()
		os.Exit(0)
	}
	logtest.Silence()
	goleak.VerifyTestMain(pgtest.Main{M: m})
}

// runIn runs the service in a synctest bubble. Its jobs are in memory unless the arguments say
// otherwise. It returns the output. If seen is not nil, it is called for each write.
func runIn(t *testing.T, seen func(text string, stop context.CancelFunc), args ...string) (string, error) {
	t.Helper()
	var printed bytes.Buffer
	var err error
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		err = run(ctx, append([]string{"-store", "memory", "-http", ""}, args...), writerFunc(func(p []byte) (int, error) {
			if seen != nil {
				seen(string(p), stop)
			}
			return printed.Write(p)
		}))
	})
	return printed.String(), err
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// write creates a file and its folders.
func write(t *testing.T, content string, path ...string) string {
	t.Helper()
	file := filepath.Join(path...)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	return file
}

// row returns the line of the table for a tenant.
func row(t *testing.T, printed, tenant string) []string {
	t.Helper()
	_, table, found := strings.Cut(printed, "FAILED\n")
	require.True(t, found, "the output must contain a table: %q", printed)
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] == tenant {
			return fields[1:]
		}
	}
	require.Fail(t, "the table must contain the tenant", "%s in %s", tenant, table)
	return nil
}

func TestTable(t *testing.T) {
	dir := t.TempDir()
	write(t, "one\ntwo\n", dir, "top.txt")
	write(t, "", dir, "empty.txt")
	lines, size := 0, 0
	for i := range 200 {
		content := strings.Repeat("line\n", i) + "no newline"
		write(t, content, dir, "busy", fmt.Sprintf("%d", i%3), fmt.Sprintf("file%d", i))
		lines += i
		size += len(content)
	}
	long := strings.Repeat("d", 100)
	write(t, strings.Repeat("x", 200_000), dir, "deep", long, long, long, "large")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "none"), 0o700))

	printed, err := runIn(t, nil, "-once", dir)
	require.NoError(t, err)
	for tenant, want := range map[string][]string{
		".":    {"2", "2", "8", "0"},
		"busy": {"200", fmt.Sprint(lines), fmt.Sprint(size), "0"},
		"deep": {"1", "0", "200000", "0"},
		"none": {"0", "0", "0", "0"},
	} {
		assert.Equal(t, want, row(t, printed, tenant), "tenant %q", tenant)
		assert.Contains(t, printed, tenant+": ", "progress must be printed as a line")
	}
	assert.NotContains(t, printed, "\x1b", "bars must not be drawn without a terminal")
}

func TestSkipsGitAndLinkedFolders(t *testing.T) {
	dir := t.TempDir()
	write(t, "git", dir, ".git", "config")
	write(t, "git", dir, "src", "vendored", ".git", "config")
	write(t, "hidden\n", dir, "src", ".hidden")
	target := write(t, "linked\n", t.TempDir(), "target")
	require.NoError(t, os.Symlink(target, filepath.Join(dir, "src", "link-to-file")))
	require.NoError(t, os.Symlink(filepath.Dir(target), filepath.Join(dir, "src", "link-to-folder")))

	printed, err := runIn(t, nil, "-once", dir)
	require.NoError(t, err)
	assert.Equal(t, []string{"2", "2", "14", "0"}, row(t, printed, "src"))
	assert.Equal(t, []string{"0", "0", "0", "0"}, row(t, printed, "."))
	assert.NotContains(t, printed, ".git")
}

func TestFailures(t *testing.T) {
	dir := t.TempDir()
	write(t, "fine\n", dir, "a", "fine")
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "a", "gone")))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "a", "gone too")))

	printed, err := runIn(t, nil, "-once", dir)
	require.NoError(t, err)
	assert.Equal(t, []string{"1", "1", "5", "2"}, row(t, printed, "a"))
	for _, name := range []string{"gone", "gone too"} {
		line := fmt.Sprintf("failed: open %s: no such file or directory\n", filepath.Join(dir, "a", name))
		assert.Equal(t, 1, strings.Count(printed, line), "file %q in %s", name, printed)
	}
}

func TestRetry(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(t.TempDir(), "target")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a"), 0o700))
	require.NoError(t, os.Symlink(target, filepath.Join(dir, "a", "late")))

	// The first tenant ends while the job of the other awaits a retry.
	printed, err := runIn(t, func(text string, _ context.CancelFunc) {
		if strings.HasPrefix(text, ".: ") {
			require.NoError(t, os.Rename(write(t, "here\n", t.TempDir(), "here"), target)) // atomic
		}
	}, "-once", dir)
	require.NoError(t, err)
	assert.Equal(t, []string{"1", "1", "5", "0"}, row(t, printed, "a"))
}

func TestServesUntilInterrupted(t *testing.T) {
	dir := t.TempDir()
	write(t, "fine\n", dir, "a", "fine")
	printed, err := runIn(t, func(text string, stop context.CancelFunc) {
		if strings.Contains(text, "Ctrl-C") {
			stop()
		}
	}, dir)
	require.NoError(t, err)
	assert.Contains(t, printed, "\n2 queues stay up. Press Ctrl-C to stop.\n")
	assert.Equal(t, []string{"1", "1", "5", "0"}, row(t, printed, "a"))
}

func TestStopBeforeTheEnd(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a"), 0o700))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "a", "gone")))
	printed, err := runIn(t, func(_ string, stop context.CancelFunc) { stop() }, dir)
	require.EqualError(t, err, `stopped without a summary of tenant "a"`)
	assert.NotContains(t, printed, "TENANT")
}

func TestInvalidArguments(t *testing.T) {
	dir := t.TempDir()
	file := write(t, "", dir, "file")
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no such directory":      {[]string{filepath.Join(dir, "none")}, "can't serve the directory: open " + dir + "/none: no such file or directory"},
		"not a directory":        {[]string{file}, "can't serve the directory: open " + file + ": not a directory"},
		"no such flag":           {[]string{"-twice"}, "flag provided but not defined: -twice"},
		"number that is not one": {[]string{"-workers", "many"}, `invalid value "many" for flag -workers`},
		"help":                   {[]string{"-help"}, flag.ErrHelp.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			printed, err := runIn(t, nil, test.args...)
			require.ErrorContains(t, err, test.want)
			assert.Empty(t, printed)
		})
	}
}

func TestFlagErrors(t *testing.T) {
	dir := t.TempDir()
	db := filepath.Join(t.TempDir(), "folder", "jobs.db")
	for name, test := range map[string]struct {
		args []string
		want flagError
	}{
		"flag after the directory": {[]string{dir, "-once"}, flagError{"the directory", "one argument, after the flags", "[" + dir + " -once]"}},
		"no workers":               {[]string{"-workers", "0", dir}, flagError{"-workers", "at least 1", "0"}},
		"unknown store":            {[]string{"-store", "paper", dir}, flagError{"-store", "memory, sqlite, mongodb://... or postgres://...", "paper"}},
		"unknown database":         {[]string{"-store", "mongo://me:secret@here", dir}, flagError{"-store", "memory, sqlite, mongodb://... or postgres://...", "mongo"}},
	} {
		t.Run(name, func(t *testing.T) {
			var refusal *flagError
			err := run(t.Context(), append([]string{"-db", db}, test.args...), io.Discard)
			require.ErrorAs(t, err, &refusal)
			assert.Equal(t, test.want, *refusal)
			assert.NoDirExists(t, filepath.Dir(db), "nothing must be created")
		})
	}
	assert.Equal(t, "-store must be memory or sqlite (is paper)", (&flagError{"-store", "memory or sqlite", "paper"}).Error())
}

func TestDefaultDirectory(t *testing.T) {
	dir := t.TempDir()
	write(t, "one\n", dir, "a", "file")
	t.Chdir(dir)
	printed, err := runIn(t, nil, "-once")
	require.NoError(t, err)
	assert.Equal(t, []string{"1", "1", "4", "0"}, row(t, printed, "a"))
}

func TestFullDisk(t *testing.T) {
	err := run(t.Context(), []string{"-store", "memory", "-once", t.TempDir()}, writerFunc(func([]byte) (int, error) { return 0, io.ErrShortWrite }))
	require.ErrorIs(t, err, io.ErrShortWrite)
}

func TestReadFile(t *testing.T) {
	for name, test := range map[string]struct {
		content   string
		mediaType string
		lines     int64
	}{
		"empty":       {"", "text/plain", 0},
		"text":        {"one\ntwo\nthree", "text/plain; charset=utf-8", 2},
		"PNG":         {"\x89PNG\r\n\x1a\n\x00", "image/png", 2},
		"many pieces": {strings.Repeat("1234567\n", 100_000), "text/plain; charset=utf-8", 100_000},
	} {
		t.Run(name, func(t *testing.T) {
			j := &fileJob{Path: write(t, test.content, t.TempDir(), "file")}
			j.Lines, j.Bytes = 17, 17 // left by a failed attempt
			require.NoError(t, j.read(t.Context()))
			sum := sha256.Sum256([]byte(test.content))
			assert.Equal(t, hex.EncodeToString(sum[:]), j.SHA256)
			assert.Equal(t, test.mediaType, j.MediaType)
			assert.Equal(t, test.lines, j.Lines)
			assert.Equal(t, int64(len(test.content)), j.Bytes)
		})
	}
}

func TestReadFileStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	j := &fileJob{Path: write(t, "text", t.TempDir(), "file")}
	require.ErrorIs(t, j.read(ctx), context.Canceled)
	assert.Empty(t, j.SHA256)
}

func TestSmallFilesFirst(t *testing.T) {
	dir := t.TempDir()
	for i, size := range []int64{0, 1, 1000, 1 << 29, 1 << 40} {
		require.NoError(t, os.Truncate(write(t, "", dir, fmt.Sprint(i)), size)) // sparse
	}
	tenants, err := findTenants(dir)
	require.NoError(t, err)
	last := 1
	for _, j := range tenants[0].jobs[1:] {
		assert.Less(t, amboy.PriorityOf(j), last, "path %s", j.(*fileJob).Path)
		last = amboy.PriorityOf(j)
	}
}
