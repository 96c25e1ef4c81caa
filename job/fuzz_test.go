package job_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/registry"
)

var fuzzed = job.DefineResult("fuzzed", 1, func(_ context.Context, n thumbnail) (thumbnail, error) { return n, nil })

// FuzzStoredTypedJob decodes typed jobs from arbitrary bytes. A job that can be decoded
// can be encoded, and decoded again to the same job.
func FuzzStoredTypedJob(f *testing.F) {
	for _, body := range []string{
		`{"args":{"path":"cat.png","width":64}}`, `{"args":null}`, `{}`, `{"args":7}`, `{"args":{},"args":[]}`,
		`{"args":{},"override":{"retry_policy":{"exponential":{"base":1,"factor":1e300,"jitter":-1}}}}`,
		`{"args":{},"override":{"retry_policy":{},"retention":{"Failed":-7}}}`, `{"args":{},"override":null}`, `[`,
	} {
		f.Add([]byte(body), []byte(`{"value":{}}`), true)
		var doc bson.D
		if bson.UnmarshalExtJSON([]byte(body), false, &doc) == nil {
			raw, err := bson.Marshal(doc)
			require.NoError(f, err)
			f.Add(raw, raw, false)
		}
	}
	f.Fuzz(func(t *testing.T, body, result []byte, isJSON bool) {
		left := registry.NewBody(result, isJSON)
		stored := registry.JobInterchange{
			Name: "j", Type: "fuzzed", Version: 1, Job: registry.NewBody(body, isJSON), Result: &left,
			Status: amboy.JobStatusInfo{Completed: true},
		}
		j, err := stored.Resolve(amboy.BSON)
		if err != nil {
			var malformed *registry.MalformedError
			require.ErrorAs(t, err, &malformed)
			return
		}
		args, err := fuzzed.Args(j)
		require.NoError(t, err)
		require.GreaterOrEqual(t, amboy.RetryDelay(j, nil), time.Duration(0))
		if _, err = fuzzed.ResultOf(j); err != nil {
			var wrong *job.ResultTypeError
			require.ErrorAs(t, err, &wrong)
		}
		again, err := registry.MakeJobInterchange(j, amboy.BSON)
		require.NoError(t, err)
		same, err := again.Resolve(amboy.BSON)
		require.NoError(t, err)
		sameArgs, err := fuzzed.Args(same)
		require.NoError(t, err)
		require.Equal(t, args, sameArgs)
	})
}
