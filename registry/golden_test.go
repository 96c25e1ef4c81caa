package registry_test

import (
	"bufio"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/registry"
)

// goldenFiles are documents as the legacy library stored them, with the format of their
// queue.
var goldenFiles = map[string]amboy.Format{
	"own.jsonl":       amboy.BSON,
	"own-bson2.jsonl": amboy.BSON2,
	"group.jsonl":     amboy.BSON,
}

// goldenIDs maps the IDs of documents to the job IDs, without the group.
var goldenIDs = map[string]string{
	"attempt-0.fails-twice":   "fails-twice",
	"attempt-0.retries-later": "retries-later",
	"attempt-1.fails-twice":   "fails-twice",
	"attempt-1.retries-later": "retries-later",
	"depends":                 "depends",
	"plain":                   "plain",
	"running":                 "running",
	"scheduled":               "scheduled",
	"scoped-at-enqueue":       "scoped-at-enqueue",
	"scoped-in-part":          "scoped-in-part",
	"shell-job-1-echo":        "shell-job-1-echo",
	"shell-job-2-echo":        "shell-job-2-echo",
	"shell-job-3-echo":        "shell-job-3-echo",
}

// goldenLines returns the documents of a file as extended JSON.
func goldenLines(tb testing.TB, name string) []string {
	tb.Helper()
	file, err := os.Open(filepath.Join("testdata", "golden", name))
	require.NoError(tb, err)
	defer func() { assert.NoError(tb, file.Close()) }()
	var lines []string
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		lines = append(lines, scanner.Text())
	}
	require.NoError(tb, scanner.Err())
	return lines
}

func TestGoldenDocuments(t *testing.T) {
	for name, format := range goldenFiles {
		lines := goldenLines(t, name)
		require.Len(t, lines, 11, name)
		for _, line := range lines {
			var want bson.Raw
			require.NoError(t, bson.UnmarshalExtJSON([]byte(line), true, &want))
			var doc registry.JobInterchange
			require.NoError(t, bson.UnmarshalExtJSON([]byte(line), true, &doc))

			t.Run(name+" "+doc.Name, func(t *testing.T) {
				testGoldenID(t, &doc)
				for _, f := range []amboy.Format{amboy.BSON, amboy.BSON2} {
					again, err := doc.Encode(f)
					require.NoError(t, err)
					assertSameDocument(t, want, again)
				}
				for _, f := range formats {
					testGoldenJob(t, want, &doc, f, format)
				}
			})
		}
	}
}

func testGoldenID(t *testing.T, doc *registry.JobInterchange) {
	t.Helper()
	stored := doc.Name
	if doc.Group != "" {
		assert.Equal(t, "tenant.one", doc.Group)
		stored = stored[len("tenant.one."):]
	}
	want, ok := goldenIDs[stored]
	require.True(t, ok)
	assert.Equal(t, want, doc.JobID())
}

// testGoldenJob decodes the job and encodes it again, as a queue does.
func testGoldenJob(t *testing.T, want bson.Raw, doc *registry.JobInterchange, f, stored amboy.Format) {
	t.Helper()
	j, err := doc.Resolve(f)
	require.NoError(t, err)
	assert.Equal(t, doc.JobID(), j.ID())
	assert.Equal(t, doc.Type, j.Type().Name)
	if shell, ok := j.(*job.ShellJob); ok {
		assert.Equal(t, "echo hello", shell.Command)
		assert.Equal(t, "hello", shell.Output)
	}

	again, err := registry.MakeJobInterchange(j, stored)
	require.NoError(t, err)
	assert.Equal(t, j.Scopes(), again.RequiredScopes)
	// These fields are set by a store, except RequiredScopes, which is new.
	again.Name, again.Group, again.Scopes, again.RequiredScopes = doc.Name, doc.Group, doc.Scopes, nil
	data, err := again.Encode(stored)
	require.NoError(t, err)
	assertSameDocument(t, want, data)
}

// assertSameDocument compares fields, values, types and order.
func assertSameDocument(t *testing.T, want, got bson.Raw) {
	t.Helper()
	require.NoError(t, got.Validate())
	if !assert.ObjectsAreEqual([]byte(want), []byte(got)) {
		assert.Equal(t, want.String(), got.String())
		assert.Fail(t, "documents differ in their bytes")
	}
}
