package sqlite

import (
	"context"

	"github.com/mongodb/amboy/queue/driver"
)

// bodySearch reads bodies, and selects some. Package database/sql takes longer for a row than SQLite
// does, so a search has a connection without it.
type bodySearch struct {
	driver.PageRequest
	on  *soleConnection
	ctx context.Context
}

// queryText implements textQuerier. It stops at a row if the context has ended or the driver is being
// closed.
func (b *bodySearch) queryText(text string, each func(*row) error, args ...any) error {
	return b.on.use(b.ctx, func(conn *ownConnection) error {
		return named(conn.queryText(text, func(r *row) error {
			if err := b.on.ended(b.ctx); err != nil {
				return err
			}
			return each(r)
		}, args...))
	})
}
