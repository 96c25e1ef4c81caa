package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/batch"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/retry"
)

// The arguments and results of the jobs. They are stored as JSON, so renaming a field needs a tag.
type (
	order     struct{ Tenant, Customer, Month string }
	invoice   struct{ Number int }
	letter    struct{ To, Text string }
	month     struct{ Tenant, Month string }
	customers struct {
		Tenant string
		Emails []string
	}
)

var patient = retry.Exponential{Base: time.Second, Max: time.Hour, Jitter: 0.2}

// issueInvoice gives an order the next number. The numbers of a tenant have no gaps, so its
// invoices are issued one at a time: they share a scope, in the queue of the tenant.
var issueInvoice = job.DefineResult("issue-invoice", 1, func(ctx context.Context, o order) (invoice, error) {
	return invoice{Number: booksFrom(ctx).number(o)}, nil
}, job.Defaults[order]{
	MaxAttempts: 10,
	RetryPolicy: patient,
	Timeout:     time.Minute,
	Scopes:      func(order) []string { return []string{"invoice numbers"} },
})

// sendLetter is tried again while the mail server is down, but not if the address is wrong. The
// same letter is sent once a day.
var sendLetter = job.Define("send-letter", 1, func(ctx context.Context, l letter) error {
	if !strings.Contains(l.To, "@") {
		return amboy.NonRetryable(fmt.Errorf("%q is not an address", l.To))
	}
	return booksFrom(ctx).mail(ctx, l)
}, job.Defaults[letter]{
	MaxAttempts: 10,
	RetryPolicy: patient,
	Unique:      job.Uniqueness{Args: true, Period: 24 * time.Hour},
})

// closeMonth puts a batch: an invoice for each customer and, when all are issued, a letter. All
// jobs of the batch have fixed IDs, so a second run after a crash adds only what is missing.
var closeMonth = job.Define("close-month", 1, func(ctx context.Context, m month) error {
	all, err := batch.New("close." + m.Month)
	if err != nil {
		return err
	}
	for _, customer := range booksFrom(ctx).customersOf(m.Tenant) {
		o := order{m.Tenant, customer, m.Month}
		j, newErr := issueInvoice.New(o, job.ID("closing."+m.Month+"."+customer))
		if err = errors.Join(newErr, all.Add(j)); err != nil {
			return err
		}
	}
	report, err := sendLetter.New(letter{"office@" + m.Tenant + ".example", m.Month + " is closed"}, job.ID("closed."+m.Month))
	if err != nil {
		return err
	}
	if err = all.OnSuccess(report); err != nil {
		return err
	}
	_, err = all.Put(ctx, amboy.QueueFromContext(ctx))
	return err
}, job.Defaults[month]{MaxAttempts: 10, RetryPolicy: patient})

// importCustomers takes long. It reports progress, ends soon when it is canceled, and continues
// where it was after a restart.
var importCustomers = job.Define("import-customers", 1, func(ctx context.Context, c customers) error {
	books := booksFrom(ctx)
	for n := len(c.Emails); len(c.Emails) > 0; c.Emails = c.Emails[1:] {
		if err := books.add(ctx, c.Tenant, c.Emails[0]); err != nil {
			return err
		}
		job.Log(ctx, "added %s", c.Emails[0])
		done := float64(n-len(c.Emails)+1) / float64(n)
		rest := customers{c.Tenant, c.Emails[1:]}
		if err := errors.Join(job.SetProgress(ctx, done, "adding customers"), job.Checkpoint(ctx, rest)); err != nil {
			return err
		}
	}
	return nil
}, job.Defaults[customers]{MaxAttempts: 3})
