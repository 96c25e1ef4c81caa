package crashtest_test

import (
	"testing"

	"github.com/mongodb/amboy/internal/mongotest"
)

// TestServerOutages runs a queue through periods in which its server does not answer or
// does not accept writes.
func TestServerOutages(t *testing.T) {
	for _, kind := range []struct {
		name       string
		option     mongotest.Option
		begin, end func(s *mongotest.Server)
	}{
		{"the connection is cut", mongotest.ReplicaSet(), cutOff, (*mongotest.Server).Accept},
		{"the connection of a standalone is cut", mongotest.Standalone(), cutOff, (*mongotest.Server).Accept},
		{"the primary steps down", mongotest.ReplicaSet(), (*mongotest.Server).StepDown, (*mongotest.Server).StepUp},
	} {
		t.Run(kind.name, func(t *testing.T) {
			if !inChild(t, nil) {
				return
			}
			d := mongotest.Open(t, kind.option, mongotest.StandIn())
			survive(t, newDatabase(d), outage{
				begin: func(*testing.T, string) { kind.begin(d.Server()) },
				end:   func(*testing.T, string) { kind.end(d.Server()) },
			})
		})
	}
}

// cutOff closes all connections and refuses new ones.
func cutOff(s *mongotest.Server) {
	s.Refuse()
	s.Disconnect()
}
