package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The file won: a port without a login was opened to other machines although the flag said no.
func TestAFlagThatIsFalseDidNotComeBeforeTheFile(t *testing.T) {
	for _, port := range []string{"workq", "pinlater"} {
		file := filepath.Join(t.TempDir(), "amboy.json")
		// The server does not come so far as to read its certificate.
		settings := fmt.Sprintf(`{"store": "memory", "listen": "127.0.0.1:0", "tls_cert": "none", "tls_key": "none", "token_file": %q, %q: "0.0.0.0:0", "%s_remote": true}`,
			file+".token", port, port)
		require.NoError(t, os.WriteFile(file, []byte(settings), 0o600))
		for value, want := range map[string]string{"false": "which other machines can reach", "true": "none"} {
			got := run(t, newFake(), "serve", "--config="+file, "--"+port+"-remote="+value)
			assert.Equal(t, 1, got.code, got.errOut)
			assert.Contains(t, got.errOut, want)
		}
		got := run(t, newFake(), "serve", "--config="+file)
		assert.NotContains(t, got.errOut, "which other machines can reach", "the file allows it")
	}
}
