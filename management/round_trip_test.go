package management_test

import (
	"context"
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson/primitive"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/registry"
)

// values contains what JSON has no form for.
type values struct {
	At    time.Time          `bson:"at" json:"at"`
	Never time.Time          `bson:"never" json:"never"`
	Key   primitive.ObjectID `bson:"key" json:"key"`
	Bytes []byte             `bson:"bytes" json:"bytes"`
	Large int64              `bson:"large" json:"large"`
	Text  string             `bson:"text" json:"text"`
}

var exampleValues = values{
	At: time.Date(2026, 11, 25, 10, 0, 0, 123_000_000, time.UTC), Key: primitive.ObjectID{1, 2, 3}, Bytes: []byte{0, 255, '"'},
	Large: math.MaxInt64, Text: `{"$date":"2026"}`,
}

// valued is a hand-written job type, which is stored as BSON.
type valued struct {
	job.Base `bson:"job_base" json:"job_base"`
	Values   values `bson:"values" json:"values"`
}

func (j *valued) Run(context.Context) { j.MarkComplete() }

func newValued() *valued {
	j := &valued{}
	j.SetType(amboy.JobType{Name: "valued", Version: 1})
	return j
}

var typedValues = job.Define("typed values", 1, func(context.Context, values) error { return nil })

func init() { registry.AddJobType("valued", func() amboy.Job { return newValued() }) }

// What a list or a job shows as arguments can be posted again, with the same meaning.
func TestShownArgumentsCanBePostedAgain(t *testing.T) {
	for _, format := range []amboy.Format{amboy.BSON, amboy.BSON2, amboy.JSON} {
		q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: newMemory(t), CloseDriver: true, NumWorkers: 1, Format: format})
		require.NoError(t, err)
		started(t, q, nil)
		require.NoError(t, q.(amboy.QueueController).Pause(t.Context()))
		i, err := management.NewInspector(q)
		require.NoError(t, err)
		first := newValued()
		first.SetID("valued")
		first.Values = exampleValues
		require.NoError(t, q.Put(t.Context(), first))
		_, err = typedValues.Put(t.Context(), q, exampleValues, job.ID("typed"))
		require.NoError(t, err)

		for _, id := range []string{"valued", "typed"} {
			shown, err := i.Job(t.Context(), "", id)
			require.NoError(t, err)
			assert.NotContains(t, string(shown.Args), `{"$date`)
			var fields map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(shown.Args, &fields))
			if fields["values"] != nil {
				require.NoError(t, json.Unmarshal(fields["values"], &fields))
			}
			assert.Equal(t, `"2026-11-25T10:00:00.123Z"`, string(fields["at"]))
			assert.Equal(t, `"0001-01-01T00:00:00Z"`, string(fields["never"]))
			assert.Equal(t, `"AP8i"`, string(fields["bytes"]))
			assert.Equal(t, "9223372036854775807", string(fields["large"]))

			created, err := i.CreateJob(t.Context(), management.NewJob{Type: shown.Type, ID: "again " + id, Args: shown.Args})
			require.NoError(t, err, "%s", shown.Args)
			again, err := i.Job(t.Context(), "", created.ID)
			require.NoError(t, err)
			assert.JSONEq(t, withoutBase(t, shown.Args), withoutBase(t, again.Args))
		}
	}
}

// withoutBase removes the part of the arguments of a hand-written type that contains its ID.
func withoutBase(t *testing.T, args json.RawMessage) string {
	t.Helper()
	var fields map[string]any
	require.NoError(t, json.Unmarshal(args, &fields))
	delete(fields, "job_base")
	left, err := json.Marshal(fields)
	require.NoError(t, err)
	return string(left)
}
