package cli_test

import (
	"context"
	"os"
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"

	"github.com/mongodb/amboy/cmd/amboy/internal/cli"
	"github.com/mongodb/amboy/internal/pgtest"
)

// asProgram is a variable of the environment that makes the test binary the program itself.
const asProgram = "AMBOY_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(cli.Run(context.Background(), cli.Env{
			Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Build: debug.ReadBuildInfo, Connect: cli.Dial,
		}, os.Args[1:]))
	}
	goleak.VerifyTestMain(pgtest.Main{M: m})
}
