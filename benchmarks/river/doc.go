// Package river compares the PostgreSQL driver with River on the same server. It is a module of
// its own, so that River is in no user's go.sum.
package river
