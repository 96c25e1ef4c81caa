package registry_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"

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

type tree struct {
	Kids []any `json:"kids"`
}

var deep = job.Define("deep", 1, func(context.Context, tree) error { return nil })

// Put accepted arguments that no process could decode, so that the job was parked.
func TestArgumentsThatAreTooDeepWereAccepted(t *testing.T) {
	for _, f := range formats {
		for _, levels := range []int{6_000, 2_000} {
			var args tree
			for range levels {
				args = tree{[]any{args}}
			}
			j, err := deep.New(args)
			require.NoError(t, err)
			stored, err := registry.MakeJobInterchange(j, f)
			if levels > 5_000 {
				require.ErrorContains(t, err, "nested deeper than 10000 levels", f)
				continue
			}
			require.NoError(t, err, f)
			_, err = stored.Resolve(f)
			require.NoError(t, err, f)
		}
	}
}

var anything = job.DefineResult("anything", 1, func(context.Context, string) (any, error) { return nil, nil })

// Reading the result of a job that a client had sent ended the process, as its body did.
func TestADeeplyNestedResultEndedTheProcess(t *testing.T) {
	j, err := anything.New("")
	require.NoError(t, err)
	stored, err := registry.MakeJobInterchange(j, amboy.JSON)
	require.NoError(t, err)
	stored.Status.Completed = true
	raw, err := bson.Marshal(bson.D{{Key: "value", Value: bson.Raw(nested(2_000_000))}})
	require.NoError(t, err)
	result := registry.NewBody(raw, false)
	stored.Result = &result
	read, err := stored.Resolve(amboy.JSON)
	require.NoError(t, err)
	_, err = anything.ResultOf(read)
	require.ErrorContains(t, err, "nested deeper than 10000 levels")
}
