package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/cmd/amboy/internal/cli"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/queue/driver/postgres"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

func TestDoctorExitsWithTheResult(t *testing.T) {
	healthy := newFake()
	healthy.jobs = nil
	assert.Equal(t, result{out: "No findings in the store and 2 of its queues.\n"}, run(t, healthy, "doctor"))

	ill := run(t, newFake(), "doctor", "-o", "json")
	assert.Equal(t, 1, ill.code)
	assert.Empty(t, ill.errOut)
	var diagnosis management.Diagnosis
	require.NoError(t, json.Unmarshal([]byte(ill.out), &diagnosis))
	require.Len(t, diagnosis.Findings, 1)
	assert.Equal(t, management.ExpiredLease, diagnosis.Findings[0].Kind)

	for err, code := range map[error]int{
		io.ErrUnexpectedEOF:                      8,
		refusal(http.StatusInternalServerError):  8,
		refusal(http.StatusNotFound):             8, // a service of an older version
		refusal(http.StatusForbidden):            5,
		errors.Join(management.ErrUnknownQueue):  3,
		errors.New("the store can't be reached"): 8,
	} {
		failing := newFake()
		failing.err = err
		got := run(t, failing, "doctor")
		assert.Equal(t, code, got.code, err)
		assert.Empty(t, got.out)
		assert.Regexp(t, `^amboy: [^\n]+\n$`, got.errOut)
	}
}

// madeUp is a service whose findings contain what users made up.
type madeUp struct{ *fake }

func (madeUp) Diagnose(context.Context) (management.Diagnosis, error) {
	const name = "a\x1b[31m\u202eb\nc"
	return management.Diagnosis{Findings: []management.Finding{{
		Kind: management.FailingSchedule, Severity: management.Critical, Detail: name, Why: name, Remedy: name, Command: name, Docs: name,
		Subject: management.Subject{InQueue: true, Queue: name, JobID: name, Type: name, Schedule: name, Process: name, Name: name},
	}}}, nil
}

func TestAttackFindingsWithControlCharacters(t *testing.T) {
	for _, format := range []string{"table", "json"} {
		got := run(t, madeUp{newFake()}, "doctor", "-o", format)
		assert.NotContains(t, got.out, "\x1b")
		assert.NotContains(t, got.out, "\u202e")
	}
}

// doctor runs the command on a store.
func doctor(t *testing.T, store string, more ...string) result {
	t.Helper()
	noURL := func(env *cli.Env) { env.Getenv = func(string) string { return "" } }
	return runIn(t.Context(), nil, noURL, append([]string{"doctor", "--store", store}, more...)...)
}

// checkStore checks a store without jobs, and one with a job that no process runs.
func checkStore(t *testing.T, d driver.Driver, examine func() result) {
	t.Helper()
	got := examine()
	require.Equal(t, result{out: "No findings in the store and 0 of its queues.\n"}, got)
	errs, err := d.Insert(t.Context(), []*driver.Record{{
		Name: driver.RecordName("a 'queue'", "job", amboy.JobRetryInfo{}), Group: "a 'queue'", Type: "type",
	}})
	require.NoError(t, err)
	require.NoError(t, errs[0])
	got = examine()
	assert.Equal(t, 1, got.code, got.errOut)
	assert.Contains(t, got.out, "CRITICAL  no-process\n  No live process has a started queue: 1 job is ready.\n")
	assert.Contains(t, got.out, "\n1 finding in the store and 1 of its queues.\n")
}

func TestDoctorReadsAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jobs.db")
	missing := doctor(t, "sqlite:"+file)
	assert.Equal(t, 8, missing.code)
	assert.Contains(t, missing.errOut, "no such file")
	assert.NoFileExists(t, file, "a diagnosis makes no store")

	d, err := sqlite.Open(t.Context(), sqlite.Options{Path: file})
	require.NoError(t, err)
	defer func() { assert.NoError(t, d.Close(t.Context())) }()
	checkStore(t, d, func() result { return doctor(t, "sqlite:"+file) })

	other := filepath.Join(t.TempDir(), "empty.db")
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	empty := doctor(t, "sqlite:"+other)
	assert.Equal(t, 8, empty.code)
	assert.Contains(t, empty.errOut, "it has schema version 0")
	info, err := os.Stat(other)
	require.NoError(t, err)
	assert.Zero(t, info.Size(), "nothing was written")
}

func TestDoctorReadsAPostgreSQL(t *testing.T) {
	server, schema := pgtest.URL(t), pgtest.Schema(t)
	missing := doctor(t, server, "--database", schema)
	assert.Equal(t, 8, missing.code)
	assert.Contains(t, missing.errOut, "the schema has version 0")
	d, err := postgres.Open(t.Context(), postgres.Options{URL: server, Schema: schema})
	require.NoError(t, err)
	defer func() { assert.NoError(t, d.Close(t.Context())) }()
	checkStore(t, d, func() result { return doctor(t, server, "--database", schema) })
}

// A pooler in transaction mode passes on no notifications, which a diagnosis does not need. The error named an option
// that the command did not have.
func TestDoctorDidNotReadAPostgreSQLBehindAPooler(t *testing.T) {
	pooler, schema := pgtest.PoolerURL(t), pgtest.Schema(t)
	d, err := postgres.Open(t.Context(), postgres.Options{URL: pgtest.URL(t), Schema: schema})
	require.NoError(t, err)
	defer func() { assert.NoError(t, d.Close(t.Context())) }()
	checkStore(t, d, func() result { return doctor(t, pooler, "--database", schema) })
}

// The time limit did not apply to a server that accepts connections and does not answer, nor did a
// signal end the command.
func TestDoctorWaitedForAServerThatDoesNotAnswer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // It is local.
	require.NoError(t, err)
	defer func() { assert.NoError(t, listener.Close()) }()
	begun := time.Now()
	got := doctor(t, "mongodb://"+listener.Addr().String()+"/?serverSelectionTimeoutMS=40000", "--timeout", "100ms")
	assert.Less(t, time.Since(begun), 20*time.Second)
	assert.Equal(t, 8, got.code)
	assert.Contains(t, got.errOut, "opening the store: context deadline exceeded")
	assert.Empty(t, got.out)
}

func TestDoctorReadsAMongoDB(t *testing.T) {
	deployment := mongotest.Open(t)
	d, err := mongodb.Open(t.Context(), mongodb.Options{Client: deployment.Client(), DB: deployment.Database(), Collection: "work", Grouped: true})
	require.NoError(t, err)
	defer func() { assert.NoError(t, d.Close(t.Context())) }()
	examine := func() result {
		return doctor(t, deployment.URI(), "--database", deployment.Database(), "--collection", "work.group")
	}
	checkStore(t, d, examine)
	_, err = deployment.Collection("work.group").Indexes().DropOne(t.Context(), "due")
	require.NoError(t, err)
	got := examine()
	assert.Contains(t, got.out, "CRITICAL  missing-index  due\n")
	assert.Equal(t, got.out, examine().out, "a diagnosis builds no index")
}

func TestDoctorRefusesBadInput(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no store and no service": {nil, 2, "the URL of the service is missing"},
		"another store":           {[]string{"--store", "mysql://me:secret@host"}, 2, `must be sqlite:FILE, mongodb://… or postgres://… (begins with "mysql")`},
		"another collection":      {[]string{"--store", "mongodb://me:secret@host", "--collection", "jobs"}, 2, `must end with .jobs or .group (is "jobs")`},
		"a schema only":           {[]string{"--database", "x"}, 2, "--database and --collection need --store"},
		"no server":               {[]string{"--store", "postgres://me:secret@127.0.0.1:1/x", "--timeout", "5s"}, 8, "connecting: "},
		"an argument":             {[]string{"now"}, 2, "usage: amboy doctor"},
	} {
		t.Run(name, func(t *testing.T) {
			noURL := func(env *cli.Env) { env.Getenv = func(string) string { return "" } }
			got := runIn(t.Context(), nil, noURL, append([]string{"doctor"}, c.args...)...)
			assert.Equal(t, c.code, got.code, got.errOut)
			assert.Contains(t, got.errOut, c.says)
			assert.NotContains(t, got.errOut, "secret")
		})
	}
}
