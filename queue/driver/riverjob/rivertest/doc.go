// Package rivertest tests package riverjob beside River itself: River's migrations make the tables,
// and its client and workers run on the same database.
//
// It is a module of its own, so that users of the library do not get River among their requirements.
// There is a test for each line of the checklist of section 12 of the notes on River's tables.
// The lines about clients in Python and Ruby send the statements of these clients through
// database/sql.
package rivertest
