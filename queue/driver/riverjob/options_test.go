package riverjob_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver/riverjob"
)

// The tests against a database are in the module rivertest, because River's migrations make its
// tables.

func TestInvalidOptionsAreRefusedByName(t *testing.T) {
	queues := []string{"default"}
	for want, opts := range map[string]riverjob.Options{
		"URL or Pool must be set":                           {Queues: queues},
		"only one of URL and Pool may be set":               {URL: "postgres://x", Pool: &pgxpool.Pool{}, Queues: queues},
		"Queues must name the queues of River":              {URL: "postgres://x"},
		`each of Queues must have 1 to 127 characters`:      {URL: "postgres://x", Queues: []string{""}},
		`Queues must name each only once (names "a" twice)`: {URL: "postgres://x", Queues: []string{"a", "a"}},
		`each of Kinds must have 1 to 127 characters`:       {URL: "postgres://x", Queues: queues, Kinds: []string{strings.Repeat("ä", 128)}},
		"KeepCompleted must not be negative":                {URL: "postgres://x", Queues: queues, KeepCompleted: -2},
		"KeepDiscarded must not be negative":                {URL: "postgres://x", Queues: queues, KeepDiscarded: -time.Hour},
		"invalid URL":                                       {URL: "postgres://:no port", Queues: queues},
	} {
		d, err := riverjob.Open(t.Context(), opts)
		require.ErrorContains(t, err, want)
		require.Nil(t, d)
	}
}

func TestCloseOfANilDriverDoesNothing(t *testing.T) {
	var d *riverjob.Driver
	require.NoError(t, d.Close(t.Context()))
}
