package mongodb

import (
	"time"

	"go.mongodb.org/mongo-driver/bson"
)

// pages schedules the checks of what documents wait for, in pages. A check reads an index entry
// of each waiting document on the server, so the more there are, the rarer it is.
type pages struct {
	due   time.Duration // when a check is due, by the driver's clock
	after any           // the last element that the last check read, if there may be more
	left  bool          // the last check, or that of an earlier page, found something
}

// checkShare is how many times as long as a check takes there is none.
const checkShare = 50

// checked records a check that began and ended at two times, and read n elements up to last.
func (p *pages) checked(began, ended time.Duration, n int, last any) {
	p.due = ended + checkShare*(ended-began)
	p.left, p.after = n > 0 || p.after != nil, nil // if this was not the first page, there was one
	if n == sweepBatch {
		p.after = last
	}
}

// ahead returns a filter for the elements after those of the last check.
func (p *pages) ahead() bson.D {
	if p.after == nil {
		return bson.D{}
	}
	return field("_id", field("$gt", p.after))
}
