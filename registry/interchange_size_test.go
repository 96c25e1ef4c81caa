package registry_test

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy/registry"
)

// The runtime adds 8 bytes to an object of this size, and takes 896 bytes for one that does not fit
// into 768.
func TestRecordFitsIn768Bytes(t *testing.T) {
	assert.LessOrEqual(t, unsafe.Sizeof(registry.JobInterchange{}), uintptr(768-8))
}
