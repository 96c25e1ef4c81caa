package postgres

import (
	"testing"

	"github.com/mongodb/amboy/queue/driver/internal/schematest"
)

func TestAStepThatDatabasesHaveTakenWasEdited(t *testing.T) {
	steps := make([]string, len(migrations))
	for n, m := range migrations {
		steps[n] = m.sql
	}
	schematest.AssertUnchanged(t, steps, []string{
		"44d143891c76984b", "bda1f7c4e372d67d", "94fe938e6c23d380", "d9e208aa462ead3e", "12932d1f06cf3cbd",
		"287a53728fddd951", "1cff7b1be38bc5cd", "6f3c660e4dcc9be2", "ac4ad7819c3c074c", "c903f24c11a9ad2d",
	})
}
