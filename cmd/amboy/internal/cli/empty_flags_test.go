package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy/cmd/amboy/internal/cli"
)

// An unset variable of a script, or a command that failed before a pipe, meant the same as no flag:
// the command succeeded and did something else, or nothing.
func TestAFlagWithAnEmptyValueWasIgnored(t *testing.T) {
	for _, line := range []string{
		"queues set mail --rate=",
		"jobs create mail send --args=",
		"jobs create mail send --args-file=",
		"jobs create mail send --args-file=-",
		"jobs create mail send --id=",
		"jobs create mail send --idempotency-key=",
		"jobs edit mail a --args=",
		"jobs edit mail a --priority=1 --revision=",
		"schedules create mail nightly send --cron=@daily --args-file=-",
		"schedules change mail nightly --args=",
		"schedules change mail nightly --zone=",
		"schedules trigger mail nightly --idempotency-key=",
	} {
		got := runIn(t.Context(), newFake(), func(env *cli.Env) { env.Stdin = strings.NewReader("") }, strings.Fields(line)...)
		assert.Equal(t, 2, got.code, "%s: %s%s", line, got.out, got.errOut)
		assert.Contains(t, got.errOut, "empty", line)
	}
}

// The command used the service, the store or the settings that it uses without the flag: perhaps
// those of production, or a file of the user. Without its file, PinLater's queues had no rate limits.
func TestAFlagWithAnEmptyValueMeantAnotherServiceOrStore(t *testing.T) {
	for _, line := range []string{
		"queues pause mail --url=",
		"queues pause mail --token=",
		"queues pause mail --token-file=",
		"doctor --store=",
		"doctor --store=sqlite:no-such-file --collection=",
		"migrate --database=",
		"migrate --database=invalid --schema=",
		"serve --store=",
		"serve --store=memory --listen=invalid --database=",
		"serve --store=memory --listen=invalid --config=",
		"serve --store=memory --listen=invalid --tls-cert= --tls-key=",
		"serve --store=memory --listen=invalid --tokens=",
		"serve --store=memory --listen=invalid --workq=",
		"serve --store=memory --listen=invalid --pinlater=",
		"serve --store=memory --listen=invalid --pinlater=127.0.0.1:0 --pinlater-queues=",
		"serve --store=memory --listen=invalid --pinlater=127.0.0.1:0 --pinlater-servers=",
		"serve --store=memory --listen=invalid --pinlater=127.0.0.1:0 --pinlater-admin-password-hash=",
		"serve --store=memory --workq=invalid --listen=",
	} {
		got := runIn(t.Context(), newFake(), func(env *cli.Env) {
			of := env.Getenv
			env.Getenv = func(name string) string {
				if name == "AMBOY_STORE" {
					return "invalid"
				}
				return of(name)
			}
		}, strings.Fields(line)...)
		assert.Equal(t, 2, got.code, "%s: %s%s", line, got.out, got.errOut)
		assert.Contains(t, got.errOut, "must not be empty", line)
	}
}
