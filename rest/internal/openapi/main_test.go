package openapi_test

import (
	"testing"

	"github.com/mongodb/amboy/internal/logtest"
)

func TestMain(m *testing.M) {
	logtest.Silence()
	m.Run()
}
