package cli

import (
	"net/http"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest"
)

// Dial returns a client of a service. It does not connect.
func Dial(service Service) (management.Inspector, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = service.Timeout
	client := &http.Client{Transport: transport}
	if !service.Watch { // the body of a watch has no end
		client.Timeout = service.Timeout
	}
	var options []rest.ClientOption
	if service.Token != "" {
		options = append(options, rest.WithToken(service.Token))
	}
	return rest.NewClient(service.URL, client, options...)
}
