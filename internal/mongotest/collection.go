package mongotest

import (
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/bson"
)

// batchArgs is the cursor field of commands.
type batchArgs struct {
	BatchSize *int64 `bson:"batchSize"`
}

// stored returns a collection, which must exist.
func (s *Server) stored(req *request, name string) (*collection, error) {
	namespace, err := req.namespace(name)
	if err != nil {
		return nil, err
	}
	c, ok := s.collections[namespace]
	if !ok {
		return nil, errorf(codeNamespaceNotFound, "ns does not exist: %s", namespace)
	}
	return c, nil
}

// replyWith replies with a cursor over documents.
func (s *Server) replyWith(ns string, docs []bson.D, batchSize *int64) (bson.D, error) {
	encoded := make([]bson.Raw, len(docs))
	for i, fields := range docs {
		doc, err := newDocument(fields)
		if err != nil {
			return nil, err
		}
		encoded[i] = doc.raw
	}
	return s.firstBatch(&documentCursor{ns: ns, docs: encoded}, batchSize, false)
}

// create creates a collection. See
// https://www.mongodb.com/docs/manual/reference/command/create/.
func (s *Server) create(req *request) (bson.D, error) {
	var args struct {
		Create string `bson:"create"`
	}
	if err := req.decode(&args); err != nil {
		return nil, err
	}
	namespace, err := req.namespace(args.Create)
	if err != nil {
		return nil, err
	}
	if _, ok := s.collections[namespace]; ok {
		return nil, errorf(codeNamespaceExists, "Collection %s already exists.", namespace)
	}
	_, err = s.collection(req, args.Create)
	return bson.D{}, err
}

// drop removes a collection. Since 7.0 a missing collection is no error. See
// https://www.mongodb.com/docs/manual/reference/command/drop/.
func (s *Server) drop(req *request) (bson.D, error) {
	var args struct {
		Drop string `bson:"drop"`
	}
	if err := req.decode(&args); err != nil {
		return nil, err
	}
	c, err := s.stored(req, args.Drop)
	if err != nil {
		if asCommandError(err).code == codeNamespaceNotFound {
			return bson.D{}, nil
		}
		return nil, err
	}
	if err := s.dropCollection(req, c); err != nil {
		return nil, err
	}
	return bson.D{{Key: "nIndexesWas", Value: int32(len(c.indexes))}, {Key: "ns", Value: c.namespace()}}, nil
}

// dropCollection removes a collection after the transactions that write to it have ended.
func (s *Server) dropCollection(req *request, c *collection) error {
	for _, r := range c.records.Values() {
		for r.changing() {
			if err := s.waitFor(req, r.owner); err != nil {
				return err
			}
		}
	}
	delete(s.collections, c.namespace())
	s.publishDrop(c)
	return nil
}

// dropDatabase removes the collections of a database. See
// https://www.mongodb.com/docs/manual/reference/command/dropDatabase/.
func (s *Server) dropDatabase(req *request) (bson.D, error) {
	var args struct {
		Drop any `bson:"dropDatabase"`
	}
	if err := req.decode(&args); err != nil {
		return nil, err
	}
	for _, c := range s.inDatabase(req.generic.DB) {
		if err := s.dropCollection(req, c); err != nil {
			return nil, err
		}
	}
	return bson.D{}, nil
}

// inDatabase returns the collections of a database, sorted by name.
func (s *Server) inDatabase(db string) []*collection {
	var found []*collection
	for _, c := range s.collections {
		if c.db == db {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b *collection) int { return strings.Compare(a.name, b.name) })
	return found
}

// listCollections lists the collections of a database. See
// https://www.mongodb.com/docs/manual/reference/command/listCollections/.
func (s *Server) listCollections(req *request) (bson.D, error) {
	var args struct {
		List       any       `bson:"listCollections"`
		Filter     bson.Raw  `bson:"filter"`
		NameOnly   bool      `bson:"nameOnly"`
		Authorized bool      `bson:"authorizedCollections"`
		Cursor     batchArgs `bson:"cursor"`
	}
	if err := req.decode(&args); err != nil {
		return nil, err
	}
	q, err := newQuery(args.Filter)
	if err != nil {
		return nil, err
	}
	var docs []bson.D
	for _, c := range s.inDatabase(req.generic.DB) {
		doc := bson.D{{Key: "name", Value: c.name}, {Key: "type", Value: "collection"}}
		if !args.NameOnly {
			doc = append(doc,
				bson.E{Key: "options", Value: bson.D{}},
				bson.E{Key: "info", Value: bson.D{{Key: "readOnly", Value: false}}},
				bson.E{Key: "idIndex", Value: c.indexes[0].spec()},
			)
		}
		if q.matches(doc) {
			docs = append(docs, doc)
		}
	}
	return s.replyWith(req.generic.DB+".$cmd.listCollections", docs, args.Cursor.BatchSize)
}
