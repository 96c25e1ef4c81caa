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
// status and an object that describes the error, and changes nothing.
//
// # What is protected
//
// A page of another site or port can't act or read (status 403), unless it follows a link; browsers
// report it. Services without options let such pages read if the program's CORS headers do. A body
// that names its type must be application/json. A body has at most MaxBodyBytes, an ID 1,024 bytes.
// By their headers, answers are not stored, framed, sniffed, embedded, or opened by other pages.
//
// Internal errors, including panics, are answered with status 500; their cause is only in the log.
// What a store says about itself, such as hosts and users, is in no answer, audit entry or schedule.
// In texts of jobs unprintable characters are escaped, and right-to-left texts isolated; in the log
// they are one line. A tenant can't push others out of the audit list.
package rest
