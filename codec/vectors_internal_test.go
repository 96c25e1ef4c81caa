package codec

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The vectors of https://c2sp.org/XAES-256-GCM: one for each value of the carry in the
// derivation of K1.
func TestVectorsOfXAES(t *testing.T) {
	for _, v := range []struct {
		key        byte
		data, want string
	}{
		{1, "", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"},
		{3, "c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"},
	} {
		k, err := newDerivingKey(bytes.Repeat([]byte{v.key}, KeyBytes))
		require.NoError(t, err)
		nonce := []byte("ABCDEFGHIJKLMNOPQRSTUVWX")
		sealed, err := k.seal(nil, nonce, []byte("XAES-256-GCM"), []byte(v.data))
		require.NoError(t, err)
		assert.Equal(t, v.want, hex.EncodeToString(sealed))
		plain, err := k.open(nonce, sealed, []byte(v.data))
		require.NoError(t, err)
		assert.Equal(t, "XAES-256-GCM", string(plain))
	}
}
