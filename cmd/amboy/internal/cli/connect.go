package cli

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mongodb/amboy/internal/printable"
	"github.com/mongodb/amboy/management"
)

// Service describes the service that the command line calls.
type Service struct {
	// URL is the URL at which rest.Handler is mounted.
	URL string
	// Token is the bearer token; empty for none.
	Token string
	// Timeout is the timeout of a request. For a watch it applies only until the answer
	// begins.
	Timeout time.Duration
	// Watch is true for a client that watches.
	Watch bool
}

// defaultTimeout is the default of --timeout.
var defaultTimeout = 30 * time.Second

type connectionFlags struct {
	url, token, tokenFile string
	timeout               time.Duration
}

func (p *program) addConnectionFlags(root *cobra.Command) {
	p.connection.timeout = defaultTimeout
	flags := root.PersistentFlags()
	flags.StringVar(&p.connection.url, "url", "", "the URL of the service's API (or AMBOY_URL)")
	flags.StringVar(&p.connection.token, "token", "", "the bearer token; other users of this machine can see it, so prefer AMBOY_TOKEN")
	flags.StringVar(&p.connection.tokenFile, "token-file", "", "a file with the token")
	flags.Var(durationFlag{&p.connection.timeout}, "timeout", "the timeout of a request")
	root.MarkFlagsMutuallyExclusive("token", "token-file")
}

// connect returns a client with the timeout of the flags.
func (p *program) connect() (management.Inspector, error) {
	return p.connectTo(Service{Timeout: p.connection.timeout})
}

// connectTo returns a client for a service, whose URL and token it takes from the flags and
// the environment.
func (p *program) connectTo(service Service) (management.Inspector, error) {
	service.URL = p.connection.url
	if service.URL == "" {
		service.URL = p.Getenv("AMBOY_URL")
	}
	if service.URL == "" {
		return nil, usage("the URL of the service is missing: set AMBOY_URL, or add --url")
	}
	var err error
	service.Token, err = p.token()
	if err != nil {
		return nil, err
	}
	inspector, err := p.Connect(service)
	if err != nil {
		return nil, &exitError{code: exitUsage, err: err}
	}
	p.hasToken = service.Token != ""
	p.warnOfPlainText(service)
	return inspector, nil
}

// warnOfPlainText warns if credentials are sent without encryption.
func (p *program) warnOfPlainText(service Service) {
	to, err := url.Parse(service.URL)
	if err != nil || to.Scheme != "http" || service.Token == "" && to.User == nil {
		return
	}
	host := to.Hostname()
	if address, errAddress := netip.ParseAddr(host); strings.EqualFold(host, "localhost") || errAddress == nil && address.Unmap().IsLoopback() {
		return
	}
	p.note("warning: the credentials are sent to %s without encryption: use https", host)
}

func (p *program) token() (string, error) {
	token := p.connection.token
	switch {
	case p.connection.tokenFile != "":
		content, err := os.ReadFile(p.connection.tokenFile)
		if err != nil {
			return "", &exitError{code: exitUsage, err: fmt.Errorf("reading the token: %w", err)}
		}
		token = string(content)
		if strings.TrimSpace(token) == "" {
			return "", usage("the token file %q is empty", p.connection.tokenFile)
		}
	case token == "":
		token = p.Getenv("AMBOY_TOKEN")
	}
	token = strings.TrimSpace(token)
	if printable.Text(token) != token || strings.Contains(token, " ") {
		return "", usage("the token contains invalid characters") // the error must not contain the token
	}
	return token, nil
}

// withInspector returns a command function that connects and then calls handle.
func (p *program) withInspector(handle func(ctx context.Context, inspector management.Inspector, args []string) error) func(*cobra.Command, []string) error {
	return p.run(func(ctx context.Context, args []string) error {
		inspector, err := p.connect()
		if err != nil {
			return err
		}
		return handle(ctx, inspector, args)
	})
}
