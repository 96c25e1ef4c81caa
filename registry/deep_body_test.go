package registry_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/registry"
)

// openJob is a job whose body may have any content.
type openJob struct {
	Any      any `bson:"any" json:"any"`
	job.Base `bson:"job_base" json:"job_base"`
}

func (j *openJob) Run(context.Context) { j.MarkComplete() }

// nested returns a document in BSON with a number of documents in each other, in the field "any".
func nested(levels int) []byte {
	const header, inner = 4 + 1 + len("any\x00"), 5
	size := levels*(header+1) + inner
	raw := make([]byte, 0, size)
	for left := size; left > inner; left -= header + 1 {
		raw = binary.LittleEndian.AppendUint32(raw, uint32(left))
		raw = append(raw, "\x03any\x00"...)
	}
	raw = binary.LittleEndian.AppendUint32(raw, inner)
	return append(raw, make([]byte, levels+1)...)
}

// A client that sent a job with documents in documents ended the process: the stack overflowed when
// the job was decoded, which can't be recovered from. The limit is that of encoding/json.
func TestADeeplyNestedBodyEndedTheProcess(t *testing.T) {
	registry.AddJobType("open", func() amboy.Job {
		return &openJob{Base: job.Base{JobType: amboy.JobType{Name: "open"}}}
	})
	for _, levels := range []int{380_000, 11_000, 9_000} {
		body, err := json.Marshal(nested(levels))
		require.NoError(t, err)
		form, err := registry.DecodeJobInterchange([]byte(`{"name": "job", "type": "open", "job": `+string(body)+`}`), amboy.JSON)
		require.NoError(t, err)
		_, err = form.Resolve(amboy.JSON)
		if levels < 10_000 {
			require.NoError(t, err, "%d levels", levels)
			continue
		}
		var malformed *registry.MalformedError
		require.ErrorAs(t, err, &malformed, "%d levels", levels)
		assert.ErrorContains(t, err, "nested deeper than 10000 levels")
	}
}
