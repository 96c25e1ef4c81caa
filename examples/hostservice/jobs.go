package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/gabriel-vasile/mimetype"
	"github.com/vbauerster/mpb/v8"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/registry"
)

var fileType, summaryType = amboy.JobType{Name: "hostservice-file"}, amboy.JobType{Name: "hostservice-summary"}

func init() {
	registry.AddJobType(fileType.Name, func() amboy.Job { return &fileJob{Base: job.Base{JobType: fileType}} })
	registry.AddJobType(summaryType.Name, func() amboy.Job { return &summaryJob{Base: job.Base{JobType: summaryType}} })
}

// idOf derives an ID from the input of a job, so that repeated starts put the job once.
func idOf(of ...any) string { return fmt.Sprintf("%.16x", sha256.Sum256(fmt.Appendln(nil, of...))) }

// tenant is a folder of the directory, or "." for the files in the directory itself.
type tenant struct {
	name, id string
	queue    amboy.Queue
	opened   chan struct{} // closed when queue is set
	bar      *mpb.Bar
	summary  *summaryJob
	jobs     []amboy.Job // first the summary, then one for each file
}

// tenantsByName stands for a database: a stored job contains only the name of its tenant.
var tenantsByName = map[string]*tenant{}

func newTenant(dir, name string) *tenant {
	summary := &summaryJob{Base: job.Base{JobType: summaryType}, Tenant: name}
	summary.Dependency().(dependency.FailureChooser).SetOnFailure(dependency.RunOnFailure)
	tenantsByName[name] = &tenant{name: name, id: dir + "//" + name, opened: make(chan struct{}), summary: summary, jobs: []amboy.Job{summary}}
	return tenantsByName[name]
}

// findTenants returns the tenants of a directory with their jobs. It skips .git.
func findTenants(dir string) ([]*tenant, error) {
	dir, err := filepath.Abs(dir) // the next process may start in another directory
	entries, readErr := os.ReadDir(dir)
	if err = errors.Join(err, readErr); err != nil {
		return nil, fmt.Errorf("can't serve the directory: %w", err)
	}
	tenants := []*tenant{newTenant(dir, ".")}
	for _, entry := range entries {
		t := tenants[0]
		if entry.IsDir() && entry.Name() != ".git" {
			t = newTenant(dir, entry.Name())
			tenants = append(tenants, t)
		}
		err = errors.Join(err, filepath.WalkDir(filepath.Join(dir, entry.Name()), t.visit))
	}
	return tenants, err
}

// visit adds the job of a file as it is now. A file that can't be read becomes a failing job.
func (t *tenant) visit(path string, entry os.DirEntry, err error) error {
	info, statErr := os.Stat(path)
	switch {
	case err == nil && entry.IsDir() && entry.Name() == ".git":
		return filepath.SkipDir
	case err == nil && statErr == nil && !info.Mode().IsRegular():
		return nil
	}
	j := &fileJob{Base: job.Base{Name: idOf(path), JobType: fileType}, Tenant: t.name, Path: path}
	if statErr == nil {
		j.SetID(idOf(path, info.Mode(), info.ModTime().UnixNano()))
		j.SetPriority(-int(min(info.Size(), 1<<30))) // small files first
	}
	j.SetScopes([]string{"folder " + filepath.Dir(path)})
	j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true), MaxAttempts: new(3), WaitUntil: new(100 * time.Millisecond)})
	t.jobs = append(t.jobs, j)
	return t.summary.Dependency().AddEdge(j.ID())
}

// fileJob reads a file. It holds the scope of its folder, so a slow folder uses one worker.
type fileJob struct {
	job.Base
	Tenant, Path, SHA256, MediaType string
	Lines, Bytes                    int64
}

func (j *fileJob) Run(ctx context.Context) {
	defer j.MarkComplete()
	j.AddRetryableError(j.read(ctx))
	if j.IsLastAttempt() {
		tenantsByName[j.Tenant].bar.Increment()
	}
}

func (j *fileJob) read(ctx context.Context) error {
	file, err := os.Open(j.Path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	hash, piece, n := sha256.New(), make([]byte, 1<<16), 0
	for j.Lines, j.Bytes = 0, 0; err == nil && ctx.Err() == nil; {
		n, err = file.Read(piece)
		if j.Bytes == 0 {
			j.MediaType = mimetype.Detect(piece[:n]).String()
		}
		hash.Write(piece[:n])
		j.Lines += int64(bytes.Count(piece[:n], []byte("\n")))
		j.Bytes += int64(n)
	}
	if !errors.Is(err, io.EOF) {
		return errors.Join(err, ctx.Err())
	}
	j.SHA256 = fmt.Sprintf("%x", hash.Sum(nil))
	return nil
}

// summaryJob sums up the files of a tenant after their jobs have ended.
type summaryJob struct {
	job.Base
	Tenant, Failures            string
	Files, Failed, Lines, Bytes int64
}

func (j *summaryJob) Run(ctx context.Context) {
	defer j.MarkComplete()
	t := tenantsByName[j.Tenant]
	select {
	case <-t.opened: // a job left by a killed process may start before that
	case <-ctx.Done():
		return
	}
	for _, id := range j.Dependency().Edges() {
		stored, _ := t.queue.Get(ctx, id)
		switch file, ok := stored.(*fileJob); {
		case !ok:
			j.AddError(fmt.Errorf("the result of job %q is missing", id))
		case file.HasErrors():
			j.Failed, j.Failures = j.Failed+1, j.Failures+"failed: "+file.Error().Error()+"\n"
		default:
			j.Files, j.Lines, j.Bytes = j.Files+1, j.Lines+file.Lines, j.Bytes+file.Bytes
		}
	}
}
