// Package rest puts queues on HTTP: services, whose handlers a program mounts under
// a prefix of its own server, and clients for them.
//
// Every service has a Handler, which speaks JSON. Path parameters are
// percent-encoded once. A request that is not valid is answered with a 4xx status and
// an object whose "error" says what is wrong, and changes nothing. Browsers can't act
// for a page of another site. Who may use a service is for the program to decide:
// the handlers ask nobody.
package rest
