package sqlite

// listed is a record in terms of the tables that list it by its tags and by its
// edges.
type listed struct {
	seq   int64
	edges bool // it has any
	tags  names
}

// dropLists takes a record that is gone out of the lists: its number may be given to
// another.
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

// moveLists lists a record by another number.
func (c *changes) moveLists(s *stored, to int64) error {
	if len(s.tags) > 0 {
		if _, err := c.exec(moveTags, to, s.tags, s.seq); err != nil {
			return err
		}
	}
	if len(s.edges) == 0 {
		return nil
	}
	_, err := c.exec(moveEdges, to, s.seq)
	return err
}
