package sqlite

// forgetAtOnce is the number of finished records, at most, that a transaction
// forgets, so that none takes long where KeepFinished was made smaller.
const forgetAtOnce = 2000

// forgetShare is the part of KeepFinished that may be kept beyond it: to forget
// many records at a time costs less than one by one.
const forgetShare = 100

// count writes how the numbers of records in each place have changed, and forgets
// finished records where there are too many.
func (c *changes) count() error {
	more := c.counts[finished] > 0
	kept, err := c.addCounts()
	excess := kept - c.writer.keepFinished
	if err != nil || !more || excess <= c.writer.keepFinished/forgetShare {
		return err
	}
	forgotten, err := c.exec(forgetFinished, c.queue, min(excess, forgetAtOnce))
	if err != nil {
		return err
	}
	c.counts[finished] = -int(forgotten)
	_, err = c.addCounts()
	return err
}

// addCounts writes the counts and begins new ones. It returns how many finished
// records there are.
func (c *changes) addCounts() (kept int, err error) {
	if c.counts == [places]int{} && c.ended == 0 {
		return 0, nil
	}
	args := []any{c.queue}
	for _, n := range c.counts {
		args = append(args, n)
	}
	_, err = c.one(addCounts, []any{&kept}, append(args, c.ended)...)
	c.counts, c.ended = [places]int{}, 0
	return kept, err
}
