package driver_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy/queue/driver"
)

func TestLastErrorIsTheJobsOwn(t *testing.T) {
	const legacy = "attempt 1 to enqueue retrying job: job has reached its maximum attempt limit"
	for name, test := range map[string]struct {
		errors []string
		want   string
	}{
		"no errors":                           {nil, ""},
		"several errors":                      {[]string{"first", "second"}, "second"},
		"skips the error of a legacy handler": {[]string{"first", "second", legacy}, "second"},
		"only the error of a legacy handler":  {[]string{legacy}, legacy},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, test.want, driver.LastError(test.errors)) })
	}
}
