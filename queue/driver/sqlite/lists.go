package sqlite

import "github.com/mongodb/amboy/queue/driver/internal/table"

// listed identifies a record in the tables of tags and edges.
type listed struct {
	seq   int64
	edges bool // whether it has edges
	tags  table.Names
}

// dropLists removes the tags and edges of a deleted record, because its number may be given
// to another record.
func (c *changes) dropLists(l *listed) error {
	if len(l.tags) > 0 {
		if _, err := c.exec(dropTags, l.tags, l.seq); err != nil {
			return err
		}
	}
	if !l.edges {
		return nil
	}
	_, err := c.exec(dropEdges, l.seq)
	return err
}

// moveLists changes the number of a record in the tables of tags and edges.
func (c *changes) moveLists(s *stored, to int64) error {
	if len(s.Tags) > 0 {
		if _, err := c.exec(moveTags, to, s.Tags, s.Seq); err != nil {
			return err
		}
	}
	if len(s.Edges) == 0 {
		return nil
	}
	_, err := c.exec(moveEdges, to, s.Seq)
	return err
}
