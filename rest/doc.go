// Package rest serves queues over HTTP. It provides handlers, which a program mounts in
// its own server, and clients for them.
//
// Handler serves everything that a management.Inspector provides, as JSON and as HTML
// pages, and calls the program to authorize requests (see Authorize). Client is an
// Inspector of another process.
//
// The services are the legacy interface. Each has its own Handler, which speaks JSON.
// Without options it allows every request.
//
// Path parameters are percent-encoded once. An invalid request is answered with a 4xx
// status and an object that describes the error, and changes nothing. Requests that a
// browser sends on behalf of another site are refused.
package rest
