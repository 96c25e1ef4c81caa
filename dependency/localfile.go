package dependency

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

const localFileName = "local-file"

// LocalFile is the manager of a job that makes files (targets) out of others
// (dependencies), by the rule of make: see section "How make Processes a
// Makefile" of the GNU make manual.
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

// NewLocalFile returns a LocalFile for one target and the files it is made of.
func NewLocalFile(target string, dependencies ...string) *LocalFile {
	l := MakeLocalFile()
	l.Targets = []string{target}
	l.Dependencies = dependencies
	return l
}

// Type names the type "local-file".
func (l *LocalFile) Type() TypeInfo { return l.T }

// State is Ready where a target is missing, or older than a dependency, or
// where there are no targets; Passed where all targets are up to date; and
// Unresolved where a dependency is missing or a file can't be looked at.
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

// Explain says which file made the state Unresolved.
func (l *LocalFile) Explain() string { return l.reason }
