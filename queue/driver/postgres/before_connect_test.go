package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

// Pools with passwords that expire, as those of cloud providers do, set the password before they connect.
// The connection that listens was opened without it, so Open failed.
func TestTheListeningConnectionIsOpenedWithTheHookOfThePool(t *testing.T) {
	config, err := pgxpool.ParseConfig(pgtest.URL(t))
	require.NoError(t, err)
	host := config.ConnConfig.Host
	config.ConnConfig.Host = t.TempDir()
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		c.Host = host
		return nil
	}
	checkListensWith(t, config)
}

// The first notification of another process ended the program: that of a pool whose own handler takes notifications
// never arrived at the driver, which did not expect that.
func TestAPoolWithAHandlerOfNotificationsEndedTheProgram(t *testing.T) {
	config, err := pgxpool.ParseConfig(pgtest.URL(t))
	require.NoError(t, err)
	config.ConnConfig.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {}
	checkListensWith(t, config)
}

// checkListensWith checks that a driver with a pool of a configuration hears of what another one puts.
func checkListensWith(t *testing.T, config *pgxpool.Config) {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	schema := pgtest.Schema(t)
	d := open(t, postgres.Options{Pool: pool, Schema: schema})
	told := make(chan driver.Change, 100)
	t.Cleanup(d.Subscribe(func(c driver.Change) { told <- c }))
	insert(t.Context(), t, open(t, postgres.Options{URL: pgtest.URL(t), Schema: schema}), newRecord("job"))
	assert.True(t, (<-told).MayClaim)
}
