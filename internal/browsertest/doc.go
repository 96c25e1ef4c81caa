// Package browsertest has tests of the dashboard in a browser: what people do there, with
// the mouse and with the keyboard alone, and whether everybody can use it.
//
// They need Chromium and, from npm, axe-core (run npm ci here). Where one is not
// installed they are skipped, unless AMBOY_TEST_BROWSER is set.
package browsertest
