package cli

import "time"

// SetDefaultTimeout sets the default of --timeout, until restore is called.
func SetDefaultTimeout(d time.Duration) (restore func()) {
	was := defaultTimeout
	defaultTimeout = d
	return func() { defaultTimeout = was }
}
