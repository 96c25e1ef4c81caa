// Command exec runs a command beside a server of package mongotest, for tests of other
// modules: go run ./internal/mongotest/exec go test -C DIRECTORY ./...
// The environment variable AMBOY_TEST_MONGODB_URI of the command names the server. If it
// is set already, no server is started.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/mongodb/amboy/internal/mongotest"
)

func main() {
	err := run(os.Args[1:])
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "exec:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("usage: exec COMMAND [ARGUMENT...]")
	}
	command := exec.Command(args[0], args[1:]...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	if os.Getenv(mongotest.URIVariable) == "" {
		server, err := mongotest.New(mongotest.Options{})
		if err != nil {
			return err
		}
		defer server.Close()
		command.Env = append(os.Environ(), mongotest.URIVariable+"="+server.URI())
	}
	return command.Run()
}
