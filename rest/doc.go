// Package rest puts queues on HTTP: handlers, which a program mounts in its own server,
// and clients for them.
//
// Handler serves all that a management.Inspector can tell and do, as JSON and as pages
// for people, and asks the program who may do what (see Authorize). Client is the
// Inspector of another process.
//
// The services are older: each has a Handler of its own, which speaks JSON and asks
// nobody. Who may use one is for the program to decide.
//
// Path parameters are percent-encoded once. A request that is not valid is answered with
// a 4xx status and an object that says what is wrong, and changes nothing. Browsers
// can't act for a page of another site.
package rest
