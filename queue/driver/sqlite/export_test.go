package sqlite

import "slices"

// SchemaVersion is the newest that this library knows.
var SchemaVersion = len(migrations)

// Queries are all statements that a driver runs, but for those that open a file.
func Queries() []string {
	queries := slices.Concat(statementTexts[:], readPlaces[:], []string{readLatest, readByName, readCounts})
	return slices.DeleteFunc(queries, func(q string) bool {
		return q == statementTexts[begin] || q == statementTexts[commit] || q == statementTexts[rollback] || q == statementTexts[dataVersion]
	})
}
