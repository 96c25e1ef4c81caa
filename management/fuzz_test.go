package management_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/amboytest"
	"github.com/mongodb/amboy/management"
)

// FuzzPattern compares a pattern with a regular expression that contains anchors, unless the
// anchors would become part of a quotation.
func FuzzPattern(f *testing.F) {
	for _, seed := range [][2]string{
		{"job.*", "job 1"}, {"a|ab", "ab"}, {"a)|(?:b", "b"}, {`\Qa`, "a"}, {"(?m)^a$", "a\nb"}, {"(?i)A+?", "aaa"}, {"", ""}, {"(a*)*b", "aaaa"}, {"[", "["}, {"\xff", "\xff"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, id string) {
		if id == "" || len(id) > amboy.MaxIDLength {
			return
		}
		q := amboytest.New(t)
		if err := q.Put(t.Context(), newTask(id, "alpha")); err != nil {
			return // the ID can't be stored
		}
		err := management.NewQueueManager(q).CompleteJobsByPattern(t.Context(), management.All, pattern)
		plain, malformed := regexp.Compile(pattern)
		if pattern == "" || malformed != nil || len(pattern) > management.MaxPatternLength {
			var argument *management.InvalidArgumentError
			require.ErrorAs(t, err, &argument)
			assert.Equal(t, 1, q.Stats(t.Context()).Pending)
			return
		}
		require.NoError(t, err)
		anchored, tooLarge := regexp.Compile(`\A(?:` + plain.String() + `)\z`)
		if tooLarge != nil {
			return // an unterminated quotation, or too large with the anchors
		}
		stored := ""
		for info := range q.JobInfo(t.Context()) {
			stored = info.ID
		}
		assert.Equal(t, anchored.MatchString(stored), q.Stats(t.Context()).IsIdle(), "pattern %q, ID %q", pattern, stored)
	})
}
