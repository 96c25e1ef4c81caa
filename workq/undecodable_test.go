package workq_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/codec"
	"github.com/mongodb/amboy/internal/outsidetest"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/workq"
)

// failingCodec fails to decode one job.
type failingCodec struct{ jobID string }

func (failingCodec) Name() string { return "failing" }

func (failingCodec) Encode(_ codec.Field, plain []byte) (keyID string, encoded []byte, err error) {
	return "", plain, nil
}

func (c failingCodec) Decode(field codec.Field, _ string, encoded []byte) ([]byte, error) {
	if field.JobID == c.jobID {
		return nil, errors.New("damaged")
	}
	return encoded, nil
}

// One job that could not be decoded made inspect fail for all jobs of its queue.
func TestAJobThatCanNotBeDecodedHidTheOthersFromInspect(t *testing.T) {
	l := outsidetest.Listen(t)
	f := startWith(t, queue.DriverQueueOptions{Driver: outsidetest.Memory(t), CloseDriver: true, Codec: failingCodec{jobID: id(1)}}, workq.Options{}, l, dialing(l))
	defer f.close()
	c := f.connect()
	c.do(add(1, "q", 1000, 60_000, "first"), ok)
	c.do(add(2, "q", 1000, 60_000, "second"), ok)
	c.send("inspect jobs q 0 10\r\n")
	require.Equal(t, "+OK 2", c.line())
	values, keys := c.entry()
	assert.Equal(t, id(1), values["title"])
	assert.Equal(t, "0", values["payload-size"])
	assert.Equal(t, "payload-error", keys[len(keys)-1], "keys may be added at the end")
	values, keys = c.entry()
	assert.Equal(t, id(2), values["title"])
	assert.Equal(t, "second", values["payload"])
	assert.Equal(t, "created", keys[len(keys)-1])

	c.send("inspect job " + id(1) + "\r\n")
	require.Equal(t, "+OK 1", c.line())
	values, _ = c.entry()
	assert.Equal(t, "can't be decoded", values["payload-error"])
}
