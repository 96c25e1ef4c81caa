//go:build unix

package serve_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/cmd/amboy/internal/serve"
	"github.com/mongodb/amboy/pinlater/wire"
)

// write replaces a file in one step: the server may read it at any time.
func write(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path+".new", []byte(content), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

// hangUp sends the signal for reading the files again, and returns the next message.
func (r *running) hangUp() string {
	r.Helper()
	require.NoError(r, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	select {
	case line := <-r.said:
		return line
	case <-time.After(30 * time.Second):
		require.Fail(r, "the server says nothing")
		return ""
	}
}

// mail describes the queue mail.
func (r *running) mail() string {
	r.Helper()
	status, body := r.call(&http.Client{Transport: &http.Transport{}}, http.MethodGet, "/v2/queues/mail", r.token, "")
	require.Equal(r, http.StatusOK, status, body)
	return body
}

func TestConfigurationFileIsReloaded(t *testing.T) {
	dir := t.TempDir()
	file, token := filepath.Join(dir, "amboy.json"), filepath.Join(dir, "token")
	settings := `"store": "memory", "token_file": "` + token + `", "listen": "192.0.2.1:1", "pinlater": "127.0.0.1:0"`
	write(t, file, `{`+settings+`, "queues": {"mail": {"max_running": 3}}}`)
	r := startedWith(t, serve.Config{File: file, Listen: "127.0.0.1:0"}) // a flag comes first
	assert.Contains(t, r.mail(), `"max_running":3`)
	require.NoError(t, r.enqueue())

	write(t, file, `{`+settings+`, "queues": {"mail": {"types": {"letter": {"max_running": 2}, "card": {"rate": {"per_second": 5}}}}}}`)
	assert.Equal(t, "Reloaded "+file, r.hangUp())
	assert.Contains(t, r.mail(), `"max_running":3,"types":{"card":{"rate":{"per_second":5}},"letter":{"max_running":2}}`)

	write(t, file, `{`+settings+`, "queues": {"mail": {"types": {"letter": {}, "card": {}}}}}`)
	assert.Equal(t, "Reloaded "+file, r.hangUp())
	assert.NotContains(t, r.mail(), `"types"`)

	write(t, file, `{`+settings+`, "queues": {"mail": {"max_running": 5}}, "pinlater_dequeue_only": true}`)
	assert.Equal(t, "Reloaded "+file, r.hangUp())
	assert.Contains(t, r.mail(), `"max_running":5`)
	require.Error(t, r.enqueue())

	for content, why := range map[string]string{
		`{`:                        "unexpected EOF",
		`{"unknown": 1}`:           `unknown field "unknown"`,
		`{} {}`:                    "single JSON object",
		`{"queues": {"mail": {}}}`: `queue "mail" must have max_running, rate, no_rate or types`,
		`{"queues": {"mail": {"max_running": -1}}}`: "must not be negative (is -1)",

		`{"queues": {"mail": {"rate": {"per_second": -1}}}}`:               "PerSecond must be 0, or between",
		`{"queues": {"mail": {"types": {"": {"max_running": 1}}}}}`:        "the type must have from 1 to 512 bytes",
		`{"queues": {"mail": {"types": {"letter": {"max_running": -1}}}}}`: "MaxRunning must not be negative (is -1)",
	} {
		write(t, file, content)
		said := r.hangUp()
		assert.Contains(t, said, "Could not reload; what is wrong stays as it was")
		assert.Contains(t, said, file)
		assert.Contains(t, said, why)
	}
	assert.Contains(t, r.mail(), `"max_running":5`)
	require.Error(t, r.enqueue())

	write(t, file, `{`+settings+`, "workq": "127.0.0.1:0"}`)
	assert.Contains(t, r.hangUp(), "apply after a restart")
	assert.Equal(t, "Reloaded "+file, <-r.said)
	assert.Contains(t, r.mail(), `"max_running":5`) // the queue is not named
	require.NoError(t, r.enqueue())
}

// enqueue puts a job as a client of PinLater.
func (r *running) enqueue() error {
	r.Helper()
	client := r.pinlaterClient()
	require.NoError(r, client.CreateQueue(r.Context(), wire.NewRequestContext(), "images"))
	_, err := client.EnqueueJobs(r.Context(), wire.NewRequestContext(), &wire.PinLaterEnqueueRequest{QueueName: "images", Jobs: []*wire.PinLaterJob{wire.NewPinLaterJob()}})
	return err
}

func TestTokenIsReloaded(t *testing.T) {
	dir := t.TempDir()
	r := started(t, dir)
	file := filepath.Join(dir, "own", "token")
	client := &http.Client{Transport: &http.Transport{}}
	write(t, file, "short")
	assert.Contains(t, r.hangUp(), "at least 16 characters")
	status, _ := r.call(client, http.MethodGet, "/v2/queues", r.token, "")
	assert.Equal(t, http.StatusOK, status)
	write(t, file, "another-token-of-the-server\n")
	assert.Equal(t, "Reloaded "+file, r.hangUp())
	status, _ = r.call(client, http.MethodGet, "/v2/queues", r.token, "")
	assert.Equal(t, http.StatusUnauthorized, status)
	status, _ = r.call(client, http.MethodGet, "/v2/queues", "another-token-of-the-server", "")
	assert.Equal(t, http.StatusOK, status)
}

func TestANewTokenLeftTheSessionsOfOldLinksOpen(t *testing.T) {
	dir := t.TempDir()
	r := started(t, dir)
	client := &http.Client{Transport: &http.Transport{}}
	link := func(token string) string {
		status, text := r.call(client, http.MethodPost, "/login/link", token, "")
		require.Equal(t, http.StatusOK, status)
		return strings.TrimPrefix(strings.TrimSpace(text), r.url)
	}
	browser := func() *http.Client {
		jar, err := cookiejar.New(nil)
		require.NoError(t, err)
		return &http.Client{Transport: &http.Transport{}, Jar: jar}
	}
	old, unused := browser(), link(r.token)
	status, _ := r.call(old, http.MethodGet, link(r.token), "", "")
	require.Equal(t, http.StatusOK, status)

	file := filepath.Join(dir, "own", "token")
	write(t, file, "another-token-of-the-server\n")
	assert.Equal(t, "Reloaded "+file, r.hangUp())
	status, _ = r.call(old, http.MethodGet, "/v2/queues", "", "")
	assert.Equal(t, http.StatusUnauthorized, status)
	status, _ = r.call(browser(), http.MethodGet, unused, "", "")
	assert.Equal(t, http.StatusUnauthorized, status)

	status, _ = r.call(old, http.MethodGet, link("another-token-of-the-server"), "", "")
	assert.Equal(t, http.StatusOK, status)
	write(t, file, "another-token-of-the-server") // the same
	assert.Equal(t, "Reloaded "+file, r.hangUp())
	status, _ = r.call(old, http.MethodGet, "/v2/queues", "", "")
	assert.Equal(t, http.StatusOK, status)
}

// certify writes a certificate for 127.0.0.1 and its key, and returns a pool with it.
func certify(t *testing.T, certFile, keyFile string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "amboy"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	write(t, certFile, string(certificate))
	write(t, keyFile, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(certificate))
	return pool
}

func TestTLSIsServedAndItsCertificateIsReloaded(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	trusted := certify(t, cert, key)
	r := startedWith(t, serve.Config{Store: "memory", TokenFile: filepath.Join(dir, "token"), Listen: "127.0.0.1:0", TLSCert: cert, TLSKey: key})
	assert.Contains(t, r.link, "https://")
	client := func(pool *x509.CertPool) *http.Client {
		return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	}
	status, _ := r.call(client(trusted), http.MethodGet, "/v2/queues", r.token, "")
	assert.Equal(t, http.StatusOK, status)
	status, _ = r.call(client(trusted), http.MethodGet, "/v2/queues", "", "")
	assert.Equal(t, http.StatusUnauthorized, status)

	write(t, key, "no key")
	assert.Contains(t, r.hangUp(), "Could not reload")
	status, _ = r.call(client(trusted), http.MethodGet, "/v2/queues", r.token, "")
	assert.Equal(t, http.StatusOK, status)

	renewed := certify(t, cert, key)
	assert.Equal(t, "Reloaded "+cert+" and "+key, r.hangUp())
	status, _ = r.call(client(renewed), http.MethodGet, "/v2/queues", r.token, "")
	assert.Equal(t, http.StatusOK, status)
}
