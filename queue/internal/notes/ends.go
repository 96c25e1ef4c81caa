package notes

// ends is a heap of notes, earliest end first.
type ends []*kept

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].Until.Before(e[j].Until) }

func (e ends) Swap(i, j int) {
	e[i], e[j] = e[j], e[i]
	e[i].index, e[j].index = i, j
}

func (e *ends) Push(x any) {
	n := x.(*kept) //nolint:forcetypeassert // Nothing else is ever pushed.
	n.index = len(*e)
	*e = append(*e, n)
}

func (e *ends) Pop() any {
	last := len(*e) - 1
	n := (*e)[last]
	(*e)[last] = nil
	*e = (*e)[:last]
	return n
}
