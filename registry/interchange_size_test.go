package registry_test

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy/registry"
)

// The runtime adds 8 bytes to an object of this size. If that makes more than 768 bytes, it takes 896.
func TestRecordFitsIn768Bytes(t *testing.T) {
	assert.LessOrEqual(t, unsafe.Sizeof(registry.JobInterchange{}), uintptr(768-8))
}
