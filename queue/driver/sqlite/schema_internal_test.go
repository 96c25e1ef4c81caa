package sqlite

import (
	"testing"

	"github.com/mongodb/amboy/queue/driver/internal/schematest"
)

func TestAStepThatDatabasesHaveTakenWasEdited(t *testing.T) {
	steps := make([]string, len(migrations))
	for n, m := range migrations {
		steps[n] = m.text
	}
	schematest.AssertUnchanged(t, steps, []string{
		"e8169f3648424a2a", "1af3f483ef1e5339", "75a2cab778233846", "2fe12cbc1117be7c", "3f360f9c43aa4433",
		"057854706be6d03e", "7d7858e710de4cab", "1d55a7557fa03a9b", "c73a7bb5321a2771",
	})
}
