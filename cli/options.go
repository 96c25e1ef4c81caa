// Package cli provides the legacy command line of a service: commands for
// github.com/urfave/cli v1 that call the management services of package rest, which the
// service mounts. The program cmd/amboy does more, and needs no code in the service.
package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/urfave/cli"
)

// ServiceOptions define where the services of package rest are mounted. The commands read
// them when they run, so a Before function can still set them. On the command line, --url
// overrides BaseURL and --prefix overrides the prefix.
type ServiceOptions struct {
	// BaseURL is the URL of the server, as in http://localhost:2285.
	BaseURL string
	// QueueManagementPrefix is the path of the handler of a rest.ManagementService.
	QueueManagementPrefix string
	// AbortablePoolManagementPrefix is the path of the handler of a
	// rest.AbortablePoolManagementService or a rest.ManagementGroupService.
	AbortablePoolManagementPrefix string
	// Client sends the requests, and authenticates them if needed. Default: a client
	// without a time limit.
	Client *http.Client
}

const (
	urlFlag    = "url"
	prefixFlag = "prefix"
)

func serviceFlags() []cli.Flag {
	return []cli.Flag{
		cli.StringFlag{Name: urlFlag, Usage: "`URL` of the server (default: that of the service)"},
		cli.StringFlag{Name: prefixFlag, Usage: "`PATH` of the handler on the server (default: that of the service)"},
	}
}

// address returns the URL of a handler.
func (o *ServiceOptions) address(c *cli.Context, prefix string) (string, error) {
	base := o.BaseURL
	if c.IsSet(urlFlag) {
		base = c.String(urlFlag)
	}
	if c.IsSet(prefixFlag) {
		prefix = c.String(prefixFlag)
	}
	parsed, err := url.Parse(base)
	if err != nil {
		return "", fmt.Errorf("--%s must be a URL (its value may hold a password, and is not shown)", urlFlag)
	}
	if parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" {
		return "", fmt.Errorf("--%s must begin with http:// or https:// and a host (is %q)", urlFlag, parsed.Redacted())
	}
	return strings.TrimRight(base, "/") + "/" + strings.Trim(prefix, "/"), nil
}
