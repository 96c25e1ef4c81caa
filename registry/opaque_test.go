package registry_test

import (
	"context"
	"encoding/json"
	"math/big"
	"net/netip"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson/primitive"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/registry"
)

// optional has methods for JSON only.
type optional struct{ value *int }

func (o optional) MarshalJSON() ([]byte, error) { return json.Marshal(o.value) }

// labeled has text, but also a field.
type labeled struct{ Label string }

func (l labeled) MarshalText() ([]byte, error) { return []byte("text of " + l.Label), nil }

// cached has a field that is left out on purpose.
type cached struct {
	Text string `bson:"-"`
}

func (c cached) MarshalText() ([]byte, error) { return []byte(c.Text), nil }

type transfer struct {
	From    netip.Addr
	Cents   big.Int
	Fee     *big.Int
	Via     []netip.Addr
	Allowed map[string]netip.Prefix
	Urgent  optional
	Any     any

	ID      primitive.ObjectID
	Amount  primitive.Decimal128
	At      time.Time
	Link    url.URL
	Raw     json.RawMessage
	Labeled labeled
	Cached  cached
	Nothing struct{}
	Guard   *sync.Mutex
	Next    *transfer
}

var transfers = job.Define("transfer", 1, func(context.Context, transfer) error { return nil })

// In the format BSON2, arguments of types such as netip.Addr and big.Int were stored as empty documents.
func TestArgumentsWithoutExportedFieldsWereLost(t *testing.T) {
	addr, one := netip.MustParseAddr("10.0.0.1"), 1
	plain := func(change func(*transfer)) transfer {
		decimal, err := primitive.ParseDecimal128("1.5")
		require.NoError(t, err)
		args := transfer{
			ID: primitive.NewObjectID(), Amount: decimal, At: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), Link: url.URL{Host: "host"},
			Raw: json.RawMessage("{}"), Labeled: labeled{"label"}, Cached: cached{"left out"}, Guard: &sync.Mutex{}, Next: &transfer{},
		}
		change(&args)
		return args
	}
	for name, args := range map[string]transfer{
		"a value":             plain(func(a *transfer) { a.From = addr }),
		"pointer methods":     plain(func(a *transfer) { a.Cents = *big.NewInt(7) }),
		"a pointer":           plain(func(a *transfer) { a.Fee = big.NewInt(7) }),
		"in a list":           plain(func(a *transfer) { a.Via = []netip.Addr{addr} }),
		"in a map":            plain(func(a *transfer) { a.Allowed = map[string]netip.Prefix{"a": netip.MustParsePrefix("10.0.0.0/8")} }),
		"methods for JSON":    plain(func(a *transfer) { a.Urgent = optional{&one} }),
		"behind an interface": plain(func(a *transfer) { a.Any = addr }),
		"in nested arguments": plain(func(a *transfer) { a.Next.Next = &transfer{From: addr} }),
	} {
		j, err := transfers.New(args)
		require.NoError(t, err)
		_, err = registry.MakeJobInterchange(j, amboy.BSON2)
		var failure *registry.EncodeError
		require.ErrorAs(t, err, &failure, name)
		require.ErrorContains(t, err, "without its content", name)
		_, err = registry.MakeJobInterchange(j, amboy.BSON)
		require.NoError(t, err, name)
	}

	args := plain(func(*transfer) {})
	j, err := transfers.New(args)
	require.NoError(t, err)
	i, err := registry.MakeJobInterchange(j, amboy.BSON2)
	require.NoError(t, err)
	j, err = i.Resolve(amboy.BSON2)
	require.NoError(t, err)
	restored, err := transfers.Args(j)
	require.NoError(t, err)
	args.Cached = cached{}
	assert.Equal(t, args, restored)
}

var resolve = job.DefineResult("resolve", 1, func(context.Context, string) (netip.Addr, error) { return netip.MustParseAddr("::1"), nil })

// The result of a job may be such a value, too.
func TestResultWithoutExportedFieldsWasLost(t *testing.T) {
	j, err := resolve.New("host")
	require.NoError(t, err)
	j.Run(t.Context())
	_, err = registry.MakeJobInterchange(j, amboy.BSON2)
	require.ErrorContains(t, err, "without its content")
}
