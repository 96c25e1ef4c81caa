package job_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/registry"
	"github.com/mongodb/amboy/retry"
)

// decodeOutside decodes the stored form of a job for outside workers.
func decodeOutside(body string) (amboy.Job, error) {
	stored := registry.JobInterchange{Name: "j", Type: "only outside", Version: 1, Job: registry.NewBody([]byte(body), true)}
	return stored.Resolve(amboy.JSON)
}

func TestAnyLayoutOfAStoredPayloadOfBytesIsDecoded(t *testing.T) {
	for body, want := range map[string][]byte{
		`{"outside":true,"bytes":"AAEC"}`: {0, 1, 2},
		`{"outside":true,"bytes":""}`:     {},
		`{"outside":true,"bytes":"AAEC","override":{"retention":{"Failed":3600000000000}}}`:           {0, 1, 2},
		`{"outside":true,"bytes":"AAEC", "override" : {"retention" : {"Failed" : 3600000000000 } } }`: {0, 1, 2},
		`{"bytes":"AAEC","outside":true}`:                        {0, 1, 2},
		`{"outside":true,"bytes":"\u0041AEC"}`:                   {0, 1, 2},
		`{"outside":true,"bytes":"AAEC","later":{"field":true}}`: {0, 1, 2},
		`{"outside":true,"bytes":"BBBB","bytes":"AAEC"}`:         {0, 1, 2},
	} {
		for range 2 { // an override that was just decoded is decoded again
			j, err := decodeOutside(body)
			require.NoError(t, err, body)
			payload, ok := job.PayloadOf(j)
			require.True(t, ok, body)
			assert.Equal(t, job.Payload{Bytes: want}, payload, body)
			if retained := j.(amboy.RetainedJob).Retention(); retained.Failed != 0 {
				assert.Equal(t, time.Hour, retained.Failed, body)
			}
		}
	}
}

func TestStoredPayloadsThatAreNoJSONAreMalformed(t *testing.T) {
	for _, body := range []string{
		`{"outside":true,"bytes":"AAEC`, `{"outside":true,"bytes":"AAEC"`, `{"outside":true,"bytes":"AAEC"}}`,
		"{\"outside\":true,\"bytes\":\"AA\nEC\"}", `{"outside":true,"bytes":"AAE"}`, `{"outside":true,"bytes":5}`, `{"outside":true,"bytes":null}`,
		`{"outside":true,"bytes":"AAEC","override":7}`, `{"outside":true,"bytes":"AAEC","override":{}x}`, `{"outside":true,"bytes":"AAEC","override":}`,
		`{"outside":true,"bytes":"AAEC",}`,
	} {
		_, err := decodeOutside(body)
		var malformed *registry.MalformedError
		assert.ErrorAs(t, err, &malformed, body)
	}
}

func TestAStoredPayloadOfBytesHasTheFormOfPackageJSON(t *testing.T) {
	hour := amboy.Retention{Failed: time.Hour}
	for want, opts := range map[string][]job.Option{
		`{"outside":true,"bytes":"AAEC"}`: nil,
		`{"outside":true,"bytes":"AAEC","override":{"retention":{"Succeeded":0,"Failed":3600000000000,"Canceled":0,"Expired":0}}}`: {job.Retention(hour)},
	} {
		j, err := job.NewOutside(amboy.JobType{Name: "only outside", Version: 1}, job.Payload{Bytes: []byte{0, 1, 2}}, opts...)
		require.NoError(t, err)
		stored, err := registry.MakeJobInterchange(j, amboy.JSON)
		require.NoError(t, err)
		assert.Equal(t, want, string(stored.Raw()))
	}
}

func TestEachStoredPayloadOfBytesHasTheOptionsOfItsJob(t *testing.T) {
	hour, day := amboy.Retention{Failed: time.Hour}, amboy.Retention{Failed: 24 * time.Hour}
	policy := job.RetryPolicy(retry.Fixed{Wait: time.Second})
	for _, want := range []struct {
		retention amboy.Retention
		opts      []job.Option
	}{
		{hour, []job.Option{job.Retention(hour)}},
		{day, []job.Option{job.Retention(day)}},
		{day, []job.Option{job.Retention(day), policy}},
		{day, []job.Option{job.Retention(day)}},
		{amboy.Retention{}, []job.Option{policy}},
		{amboy.Retention{}, nil},
		{hour, []job.Option{job.Retention(hour)}},
	} {
		j, err := job.NewOutside(amboy.JobType{Name: "only outside", Version: 1}, job.Payload{Bytes: []byte{0}}, want.opts...)
		require.NoError(t, err)
		stored, err := registry.MakeJobInterchange(j, amboy.JSON)
		require.NoError(t, err)
		read, err := stored.Resolve(amboy.JSON)
		require.NoError(t, err)
		assert.Equal(t, want.retention, read.(amboy.RetainedJob).Retention())
		assert.Equal(t, j.(amboy.RetryPolicyJob).RetryPolicy(), read.(amboy.RetryPolicyJob).RetryPolicy())
	}
}

func TestTheStoredFormKeepsItsMetadataWhenTheJobChanges(t *testing.T) {
	j, err := job.NewOutside(amboy.JobType{Name: "only outside", Version: 1}, job.Payload{}, job.Metadata(map[string]string{"a": "1"}))
	require.NoError(t, err)
	stored, err := registry.MakeJobInterchange(j, amboy.JSON)
	require.NoError(t, err)
	read, err := stored.Resolve(amboy.JSON)
	require.NoError(t, err)
	for _, changed := range []amboy.Job{j, read} {
		changed.(amboy.MetadataJob).SetMetadata("a", "")
		changed.(amboy.MetadataJob).SetMetadata("b", "2")
		assert.Equal(t, map[string]string{"b": "2"}, amboy.MetadataOf(changed))
		assert.Equal(t, map[string]string{"a": "1"}, stored.Metadata)
	}
	given := amboy.MetadataOf(read)
	given["c"] = "3"
	assert.Equal(t, map[string]string{"b": "2"}, amboy.MetadataOf(read), "it is a copy")
}
