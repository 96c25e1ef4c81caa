// Package oteltest tests package otelamboy with the SDK of OpenTelemetry.
//
// It is a module of its own, so that users of the library do not get the SDK among their requirements.
package oteltest
