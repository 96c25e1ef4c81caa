package queue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
)

func TestMongoDBOptionsValidate(t *testing.T) {
	valid := func() queue.MongoDBOptions {
		return queue.MongoDBOptions{URI: "mongodb://localhost", DB: "db", Collection: "jobs"}
	}
	for name, test := range map[string]struct {
		amend func(*queue.MongoDBOptions)
		errs  []string
	}{
		"required options only": {amend: func(*queue.MongoDBOptions) {}},
		"a client":              {amend: func(o *queue.MongoDBOptions) { o.URI, o.Client = "", &mongo.Client{} }},
		"both":                  {amend: func(o *queue.MongoDBOptions) { o.Client = &mongo.Client{} }},
		"a group's":             {amend: func(o *queue.MongoDBOptions) { o.UseGroups, o.GroupName = true, "one" }},
		"BSON2":                 {amend: func(o *queue.MongoDBOptions) { o.Format = amboy.BSON2 }},
		"a second":              {amend: func(o *queue.MongoDBOptions) { o.TTL = time.Second }},
		"nameless group":        {amend: func(o *queue.MongoDBOptions) { o.UseGroups = true }, errs: []string{"GroupName must be set if UseGroups is"}},
		"JSON":                  {amend: func(o *queue.MongoDBOptions) { o.Format = amboy.JSON }, errs: []string{"Format must be BSON or BSON2 (is json)"}},
		"no format":             {amend: func(o *queue.MongoDBOptions) { o.Format = -1 }, errs: []string{"Format must be BSON or BSON2"}},
		"short TTL":             {amend: func(o *queue.MongoDBOptions) { o.TTL = time.Second - 1 }, errs: []string{"TTL must be 0 or at least 1s (is 999.999999ms)"}},
		"negative": {
			amend: func(o *queue.MongoDBOptions) { o.LockTimeout, o.WaitInterval, o.TTL, o.SampleSize = -1, -2, -3, -4 },
			errs: []string{
				"LockTimeout must not be negative (is -1ns)", "WaitInterval must not be negative (is -2ns)",
				"TTL must be 0 or at least 1s (is -3ns)", "SampleSize must not be negative (is -4)",
			},
		},
		"nothing": {
			amend: func(o *queue.MongoDBOptions) { *o = queue.MongoDBOptions{} },
			errs:  []string{"Client or URI must be set", "DB must be set", "Collection must be set"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			opts := valid()
			test.amend(&opts)
			err := opts.Validate()
			if test.errs == nil {
				require.NoError(t, err)
				assert.Equal(t, amboy.LockTimeout, opts.LockTimeout)
				assert.Equal(t, time.Second, opts.WaitInterval)
			}
			for _, text := range test.errs {
				assert.ErrorContains(t, err, text)
			}
		})
	}
}

func TestDefaultMongoDBOptions(t *testing.T) {
	opts := queue.DefaultMongoDBOptions()
	require.ErrorContains(t, opts.Validate(), "Collection must be set")
	opts.Collection = "jobs"
	require.NoError(t, opts.Validate())
	assert.True(t, opts.CheckWaitUntil)
	assert.True(t, opts.CheckDispatchBy)
	assert.Equal(t, amboy.BSON, opts.Format)
}
