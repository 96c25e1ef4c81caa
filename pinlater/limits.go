package pinlater

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// limits are the rate limits of queues. A limit lends: a call passes if no debt is open,
// however many jobs it asks for, and then owes them.
type limits struct {
	now func() time.Time

	mu sync.Mutex
	// rates are the limits of queues for all servers, in jobs per second; 0 or less pauses.
	rates   map[string]float64
	buckets map[string]*bucket
	// servers is the number of servers that share the limits.
	servers int
}

// bucket holds the tokens of a queue; less than 0 is a debt.
type bucket struct {
	tokens float64
	at     time.Time
}

// allow reports whether a call that asks for n jobs passes, and charges them if it does.
func (l *limits) allow(queue string, n int32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	rate, limited := l.rates[queue]
	if !limited {
		return true
	}
	if rate <= 0 {
		return false
	}
	rate /= float64(l.servers)
	now := l.now()
	b := l.buckets[queue]
	if b == nil {
		b = &bucket{at: now}
		l.buckets[queue] = b
	}
	b.tokens = min(rate, b.tokens+rate*now.Sub(b.at).Seconds())
	b.at = now
	if b.tokens < 0 {
		return false
	}
	b.tokens -= float64(n)
	return true
}

// setRates replaces the limits. No debt remains.
func (l *limits) setRates(rates map[string]float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rates, l.buckets = rates, map[string]*bucket{}
}

func (l *limits) setServers(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.servers, l.buckets = n, map[string]*bucket{}
}

// parseQueueConfig parses a file with rate limits.
func parseQueueConfig(data []byte) (map[string]float64, error) {
	var file struct {
		Queues []struct {
			Name        string           `json:"name"`
			QueueConfig *json.RawMessage `json:"queueConfig"`
		} `json:"queues"`
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return nil, fmt.Errorf("decoding the queue configuration: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("invalid queue configuration: it must be a single JSON object")
	}
	rates := make(map[string]float64, len(file.Queues))
	for i, q := range file.Queues {
		if q.Name == "" {
			return nil, fmt.Errorf("invalid queue configuration: name of queue %d must not be empty", i)
		}
		if q.QueueConfig == nil {
			return nil, fmt.Errorf("invalid queue configuration: queue %q must have a queueConfig", q.Name)
		}
		if _, twice := rates[q.Name]; twice {
			return nil, fmt.Errorf("invalid queue configuration: queue %q must be listed once", q.Name)
		}
		var config struct {
			MaxJobsPerSecond float64 `json:"maxJobsPerSecond"`
		}
		if err := json.Unmarshal(*q.QueueConfig, &config); err != nil {
			return nil, fmt.Errorf("decoding the configuration of queue %q: %w", q.Name, err)
		}
		rates[q.Name] = config.MaxJobsPerSecond
	}
	return rates, nil
}

// parseServerSet parses a file that lists servers, and returns their number.
func parseServerSet(data []byte) (int, error) {
	servers := map[string]bool{}
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		colon := bytes.LastIndexByte(line, ':')
		if colon < 1 || colon == len(line)-1 {
			return 0, fmt.Errorf("invalid server set: each line must be host:port (is %q)", short(string(line)))
		}
		servers[string(line)] = true
	}
	return len(servers), nil
}
