package dependency

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

const createsFileName = "create-file"

// createsFile passes a job over when the file that it makes exists.
type createsFile struct {
	FileName string   `bson:"file_name" json:"file_name" yaml:"file_name"`
	T        TypeInfo `bson:"type" json:"type" yaml:"type"`
	JobEdges

	reason string
}

// NewCreatesFile returns the manager of a job that makes a file: Passed where
// the file exists, Ready where it does not or where its name is empty, and
// Unresolved where that can't be found out.
func NewCreatesFile(name string) Manager {
	return &createsFile{
		FileName: name,
		T:        TypeInfo{Name: createsFileName},
		JobEdges: NewJobEdges(),
	}
}

func (c *createsFile) Type() TypeInfo { return c.T }

func (c *createsFile) State() State {
	if c.FileName == "" {
		return Ready
	}
	_, err := os.Stat(c.FileName)
	switch {
	case err == nil:
		return Passed
	case errors.Is(err, fs.ErrNotExist):
		return Ready
	default:
		c.reason = fmt.Sprintf("can't tell whether the file exists: %v", err)
		return Unresolved
	}
}

func (c *createsFile) Explain() string { return c.reason }
