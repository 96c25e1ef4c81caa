// Package river measures the PostgreSQL driver beside River on the same server. It is a module
// of its own, so that no user of the library has River in a go.sum.
package river
