package postgres

import "context"

// promotedAtOnce is the maximum number of due records without scopes that one transaction makes ready.
const promotedAtOnce = 1000

// promoter makes due records ready in the background if there are more than one transaction takes. Each
// such transaction takes longer than a claim, so claims take what is ready meanwhile.
type promoter struct {
	d *Driver
	background

	now    int64         // of the latest claim
	from   int64         // when the first record may be due, as far as that claim knows
	scoped bool          // what the latest promotion has found
	round  chan struct{} // closed when the promotion under way has ended; nil while there is none
}

func newPromoter(d *Driver) *promoter {
	p := &promoter{d: d}
	p.init()
	return p
}

// join returns a channel that is closed when the promotion under way has ended, nil if there is none, and
// whether due records that take scopes were found.
func (p *promoter) join(now, from int64) (round <-chan struct{}, scoped bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now, p.from = now, from
	return p.round, p.scoped
}

// begin starts run if it is not running.
func (p *promoter) begin(scoped bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.round == nil && p.ctx.Err() == nil {
		p.round, p.scoped = make(chan struct{}), scoped
		p.all.Go(p.run)
	}
}

// run ends after an error, too: the next claim makes the same call, and returns its error.
func (p *promoter) run() {
	for more := true; more; {
		p.mu.Lock()
		now, from := p.now, p.from
		p.mu.Unlock()
		ctx, cancel := context.WithTimeout(p.ctx, backgroundTime)
		full, scoped, err := p.d.promote(ctx, now, from)
		cancel()
		more = full && err == nil

		p.mu.Lock()
		close(p.round)
		p.round, p.scoped = nil, scoped
		if more {
			p.round = make(chan struct{})
		}
		p.mu.Unlock()
	}
}

// promote makes due records ready that take no scopes when they start. It reports whether it took as many as
// it may, and whether there are others. A process that raises a floor may be suspended, so it waits for a
// short time.
func (d *Driver) promote(ctx context.Context, now, from int64) (full, scoped bool, err error) {
	err = d.retrying(ctx, func(ctx context.Context) (bool, error) {
		return d.pipeline(ctx, func(b *batch) {
			b.planWithin(brief)
			b.exec(lockPromotions, d.lockKey(lockOfPromotions, 0))
			b.query(promoteDue, func(r *row) error {
				full, scoped = r.int() >= promotedAtOnce, r.bool()
				return nil
			}, now, promotedAtOnce, from)
		})
	})
	return full, scoped, err
}
