package dependency

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

const createsFileName = "create-file"

// createsFile skips a job if the file that the job creates already exists.
type createsFile struct {
	FileName string   `bson:"file_name" json:"file_name" yaml:"file_name"`
	T        TypeInfo `bson:"type" json:"type" yaml:"type"`
	JobEdges

	reason string
}

// NewCreatesFile returns the manager of a job that creates a file. Its state is Passed if
// the file exists, Ready if the file does not exist or its name is empty, and Unresolved
// if that can't be determined.
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
		c.reason = fmt.Sprintf("can't determine whether the file exists: %v", err)
		return Unresolved
	}
}

func (c *createsFile) Explain() string { return c.reason }
