package river

import (
	"io"
	"log"
	"os"
	"testing"

	"github.com/mongodb/grip"
	"github.com/mongodb/grip/send"
)

func TestMain(m *testing.M) {
	// Messages are built, as in a service, but no benchmark measures the terminal.
	if err := grip.SetSender(send.WrapWriterLogger(io.Discard)); err != nil {
		log.Fatal(err)
	}
	os.Exit(m.Run())
}
