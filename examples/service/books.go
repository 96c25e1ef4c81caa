package main

import (
	"context"
	"slices"
	"sync"
	"time"
)

// tenants stand for the customers of the service, each with a queue.
var tenants = []string{"acme", "globex"}

// books stand for the database and the mail server of a service. Jobs are stored without them,
// and get them in their contexts.
type books struct {
	mail func(ctx context.Context, l letter) error
	pace time.Duration // how long it takes to add a customer

	mutex     sync.Mutex
	customers map[string][]string // by tenant
	numbers   map[order]int
	issued    map[string]int // by tenant
}

func newBooks() *books {
	b := &books{
		mail:      func(context.Context, letter) error { return nil },
		pace:      time.Second,
		customers: map[string][]string{}, numbers: map[order]int{}, issued: map[string]int{},
	}
	for _, tenant := range tenants {
		b.customers[tenant] = []string{"ann@example.com", "bob@example.com"}
	}
	return b
}

type booksKey struct{}

// attach is called for each run of a job: see middleware.Context in queues.go.
func (b *books) attach(ctx context.Context) context.Context {
	return context.WithValue(ctx, booksKey{}, b)
}

func booksFrom(ctx context.Context) *books { return ctx.Value(booksKey{}).(*books) }

// number returns the number of an invoice. It is the same if a job runs twice.
func (b *books) number(o order) int {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if _, ok := b.numbers[o]; !ok {
		b.issued[o.Tenant]++
		b.numbers[o] = b.issued[o.Tenant]
	}
	return b.numbers[o]
}

func (b *books) add(ctx context.Context, tenant, email string) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(b.pace):
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if !slices.Contains(b.customers[tenant], email) {
		b.customers[tenant] = append(b.customers[tenant], email)
	}
	return nil
}

func (b *books) customersOf(tenant string) []string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return slices.Clone(b.customers[tenant])
}
