package postgres

import (
	"context"
	"time"

	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// maxDueLeft is how long due records of a queue with one line are left to claims that take them as they are. Then
// they are made ready, so that they count as ready while all workers are busy, and do not wait behind a backlog.
const maxDueLeft = time.Second

// takeDue claims ready records, and then due records as they are: to make them ready first takes longer than the
// claim. It does so only for a queue that is believed to have one line, if no record has expired and no transaction
// has left work. It reports whether the claim is complete.
func (cl *claim) takeDue(ctx context.Context, t times) (done bool, err error) {
	p, known := cl.alone()
	if !known || !t.isOnlyDue() {
		return false, nil
	}
	until := table.TimeOf(t.dueSince).Add(maxDueLeft)
	if wanted := p.n > 0 && !cl.isReady; !wanted && !cl.Now.Before(until) {
		return false, nil
	}
	if cl.promotion, _ = cl.d.promoter.join(cl.now, cl.due.from); cl.promotion != nil {
		return false, nil
	}
	var taken []*stored
	if cl.isReady {
		taken, err = cl.lease(ctx, takeAlone, []portion{p}, cl.aloneArgs(takeAlone, p, never)...)
		if err != nil || len(taken) == 0 {
			return false, err
		}
		cl.given = taken
		p.n -= len(taken)
	}
	if p.n > 0 {
		taken, err = cl.lease(ctx, takeDue, []portion{p}, p.line, p.n, cl.now, cl.Owner, int64(cl.LeaseTime), nil, cl.due.from)
		if cl.given = append(cl.given, taken...); err != nil || len(cl.given) == 0 {
			return false, err
		}
	}
	if p.n <= 0 || len(taken) == p.n { // there may be more
		cl.next = t.next()
		cl.returnBy(until)
		return true, nil
	}
	err = cl.setNext(ctx)
	if cl.leftOut {
		cl.returnBy(cl.Now.Add(lockedPause))
	}
	return true, err
}
