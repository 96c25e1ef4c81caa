package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/gabriel-vasile/mimetype"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/registry"
)

const fileType, summaryType = "hostservice-file", "hostservice-summary"

func init() {
	registry.AddJobType(fileType, func() amboy.Job { return &fileJob{Base: base(fileType, "")} })
	registry.AddJobType(summaryType, func() amboy.Job { return &summaryJob{Base: base(summaryType, "")} })
}

func base(jobType, id string) job.Base {
	return job.Base{Name: id, JobType: amboy.JobType{Name: jobType}}
}

// tenantsByName stands for a database: a stored job has its tenant's name only.
var tenantsByName map[string]*tenant

// totals is what files add up to.
type totals struct {
	files, lines, bytes int64
	failures            []string
}

func (t *totals) add(u *totals) {
	t.files, t.lines, t.bytes = t.files+u.files, t.lines+u.lines, t.bytes+u.bytes
	t.failures = append(t.failures, u.failures...)
}

// fileJob reads a file and adds it to the totals of its folder. It holds the
// folder's scope, so that no other job uses the totals meanwhile.
type fileJob struct {
	job.Base  `json:"base"`
	Tenant    string `json:"tenant"`
	Path      string `json:"path"`
	SHA256    string `json:"sha256"`
	MediaType string `json:"media_type"`
	Lines     int64  `json:"lines"`
	Bytes     int64  `json:"bytes"`
}

func newFileJob(id, tenant, path string, size int64) *fileJob {
	j := &fileJob{Base: base(fileType, id), Tenant: tenant, Path: path}
	j.SetPriority(-int(min(size, math.MaxInt32))) // small files first
	j.SetScopes([]string{"folder " + filepath.Dir(path)})
	j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true), MaxAttempts: new(3), WaitUntil: new(100 * time.Millisecond)})
	return j
}

func (j *fileJob) Run(ctx context.Context) {
	defer j.MarkComplete()
	err := j.read(ctx)
	j.AddRetryableError(err)
	if err != nil && !j.IsLastAttempt() {
		return // another attempt follows
	}
	t := tenantsByName[j.Tenant]
	result := &totals{files: 1, lines: j.Lines, bytes: j.Bytes}
	if err != nil {
		result = &totals{failures: []string{err.Error()}}
	}
	t.folders[filepath.Dir(j.Path)].add(result)
	t.bar.Increment()
}

func (j *fileJob) read(ctx context.Context) error {
	file, err := os.Open(j.Path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	hash, piece := sha256.New(), make([]byte, 1<<16)
	j.Lines, j.Bytes = 0, 0
	for n := 0; err == nil; err = cmp.Or(err, ctx.Err()) {
		n, err = file.Read(piece)
		if j.Bytes == 0 {
			j.MediaType = mimetype.Detect(piece[:n]).String()
		}
		hash.Write(piece[:n])
		j.Lines += int64(bytes.Count(piece[:n], []byte("\n")))
		j.Bytes += int64(n)
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	j.SHA256 = fmt.Sprintf("%x", hash.Sum(nil))
	return nil
}

// summaryJob adds up the folders of a tenant when its file jobs have ended.
type summaryJob struct {
	job.Base `json:"base"`
	Tenant   string `json:"tenant"`
}

func newSummaryJob(tenant string) *summaryJob {
	j := &summaryJob{Base: base(summaryType, "summary"), Tenant: tenant}
	j.Dependency().(dependency.FailureChooser).SetOnFailure(dependency.RunOnFailure)
	return j
}

func (j *summaryJob) Run(context.Context) {
	defer j.MarkComplete()
	t := tenantsByName[j.Tenant]
	for _, folder := range t.folders {
		t.add(folder)
	}
	t.bar.Increment()
}
