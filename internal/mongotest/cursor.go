package mongotest

import (
	"time"

	"go.mongodb.org/mongo-driver/bson"
)

// defaultBatch is the default size of the first batch.
const defaultBatch = 101

// cursor is a cursor that getMore continues.
type cursor interface {
	namespace() string
	// next returns up to size documents, or all if size is negative, and reports whether
	// there may be more.
	next(s *Server, size int64) ([]bson.Raw, bool, error)
	// token returns where a change stream can be resumed, or nil for other cursors.
	token() bson.D
}

// documentCursor is a cursor over documents that were found already.
type documentCursor struct {
	ns   string
	docs []bson.Raw
}

func (c *documentCursor) namespace() string { return c.ns }

func (c *documentCursor) token() bson.D { return nil }

// next ends a batch before it exceeds the maximum size of a document, as servers do.
func (c *documentCursor) next(_ *Server, size int64) ([]bson.Raw, bool, error) {
	n, bytes := 0, 0
	for n < len(c.docs) && (size < 0 || int64(n) < size) {
		bytes += len(c.docs[n])
		if n > 0 && bytes > maxDocumentSize {
			break
		}
		n++
	}
	batch := c.docs[:n]
	c.docs = c.docs[n:]
	return batch, len(c.docs) > 0, nil
}

// firstBatch replies with the first documents of a cursor, and keeps the cursor if there
// are more.
func (s *Server) firstBatch(c cursor, batchSize *int64, single bool) (bson.D, error) {
	size := int64(defaultBatch)
	if batchSize != nil {
		size = *batchSize
	}
	batch, more, err := c.next(s, size)
	if err != nil {
		return nil, err
	}
	var id int64
	if more && !single {
		s.lastCursor++
		id = s.lastCursor
		s.cursors[id] = c
	}
	return cursorReply("firstBatch", id, c, batch), nil
}

func cursorReply(name string, id int64, c cursor, batch []bson.Raw) bson.D {
	if batch == nil {
		batch = []bson.Raw{}
	}
	reply := bson.D{{Key: name, Value: batch}, {Key: "id", Value: id}, {Key: "ns", Value: c.namespace()}}
	if token := c.token(); token != nil {
		reply = append(reply, bson.E{Key: "postBatchResumeToken", Value: token})
	}
	return bson.D{{Key: "cursor", Value: reply}}
}

// getMore returns the next documents of a cursor. On a change stream it waits
// for events up to maxTimeMS, one second by default. See
// https://www.mongodb.com/docs/manual/reference/command/getMore/.
func (s *Server) getMore(req *request) (bson.D, error) {
	var args struct {
		ID         int64  `bson:"getMore"`
		Collection string `bson:"collection"`
		BatchSize  *int64 `bson:"batchSize"`
	}
	if err := req.decode(&args); err != nil {
		return nil, err
	}
	size := int64(-1)
	if args.BatchSize != nil && *args.BatchSize > 0 {
		size = *args.BatchSize
	}
	await := time.Second
	if req.generic.MaxTimeMS > 0 {
		await = time.Duration(req.generic.MaxTimeMS) * time.Millisecond
		req.generic.MaxTimeMS = 0 // it bounds the wait here, and its end is no error
	}
	for {
		c, ok := s.cursors[args.ID]
		if !ok || c.namespace() != req.generic.DB+"."+args.Collection {
			return nil, errorf(codeCursorNotFound, "cursor id %d not found", args.ID)
		}
		batch, more, err := c.next(s, size)
		if err != nil {
			delete(s.cursors, args.ID)
			return nil, err
		}
		left := await - time.Since(req.received)
		if len(batch) > 0 || !more || left <= 0 {
			return s.nextBatch(args.ID, c, batch, more), nil
		}
		if err := s.wait(req, s.changed, left); err != nil {
			return nil, err
		}
	}
}

func (s *Server) nextBatch(id int64, c cursor, batch []bson.Raw, more bool) bson.D {
	if !more {
		delete(s.cursors, id)
		id = 0
	}
	return cursorReply("nextBatch", id, c, batch)
}

// killCursors removes cursors. See
// https://www.mongodb.com/docs/manual/reference/command/killCursors/.
func (s *Server) killCursors(req *request) (bson.D, error) {
	var args struct {
		Collection string  `bson:"killCursors"`
		Cursors    []int64 `bson:"cursors"`
	}
	if err := req.decode(&args); err != nil {
		return nil, err
	}
	killed, missing := []int64{}, []int64{}
	for _, id := range args.Cursors {
		if _, ok := s.cursors[id]; ok {
			delete(s.cursors, id)
			killed = append(killed, id)
		} else {
			missing = append(missing, id)
		}
	}
	return bson.D{
		{Key: "cursorsKilled", Value: killed},
		{Key: "cursorsNotFound", Value: missing},
		{Key: "cursorsAlive", Value: []int64{}},
		{Key: "cursorsUnknown", Value: []int64{}},
	}, nil
}
