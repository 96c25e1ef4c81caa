package dependency

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

const localFileName = "local-file"

// LocalFile is the manager of a job that makes files (targets) from other files
// (dependencies), by the rule of make: see section "How make Processes a Makefile" of the
// GNU make manual.
type LocalFile struct {
	// Targets are the files that the job makes.
	Targets []string `bson:"targets" json:"targets" yaml:"targets"`
	// Dependencies are the files that it reads.
	Dependencies []string `bson:"dependencies" json:"dependencies" yaml:"dependencies"`
	T            TypeInfo `bson:"type" json:"type" yaml:"type"`
	JobEdges

	reason string
}

// MakeLocalFile returns a LocalFile without files.
func MakeLocalFile() *LocalFile {
	return &LocalFile{T: TypeInfo{Name: localFileName}, JobEdges: NewJobEdges()}
}

// NewLocalFile returns a LocalFile for one target and the files from which it is made.
func NewLocalFile(target string, dependencies ...string) *LocalFile {
	l := MakeLocalFile()
	l.Targets = []string{target}
	l.Dependencies = dependencies
	return l
}

// Type returns the type "local-file".
func (l *LocalFile) Type() TypeInfo { return l.T }

// State returns Ready if there are no targets, or a target is missing or older than a
// dependency. It returns Passed if all targets are up to date, and Unresolved if a
// dependency is missing or a file can't be read.
func (l *LocalFile) State() State {
	var newest time.Time
	for _, name := range l.Dependencies {
		info, err := os.Stat(name)
		if err != nil {
			return l.unresolved("dependency", err)
		}
		if info.ModTime().After(newest) {
			newest = info.ModTime()
		}
	}
	if len(l.Targets) == 0 {
		return Ready
	}
	for _, name := range l.Targets {
		info, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return Ready
		}
		if err != nil {
			return l.unresolved("target", err)
		}
		if info.ModTime().Before(newest) {
			return Ready
		}
	}
	return Passed
}

func (l *LocalFile) unresolved(role string, err error) State {
	l.reason = fmt.Sprintf("can't use the %s: %v", role, err)
	return Unresolved
}

// Explain returns which file made the state Unresolved, and why.
func (l *LocalFile) Explain() string { return l.reason }
