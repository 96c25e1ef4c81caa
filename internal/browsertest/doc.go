// Package browsertest tests the dashboard in a browser: the tasks of an operator, with the
// mouse and with the keyboard alone, and accessibility.
//
// The tests need Chromium and the npm package axe-core (run npm ci here). They are skipped if
// one of them is not installed, unless AMBOY_TEST_BROWSER is set.
package browsertest
