package pinlater

import (
	"context"
	"strings"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/filewatch"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// loadFiles reads the files that the options name, and returns them.
func (s *Server) loadFiles() ([]*filewatch.Files, error) {
	var files []*filewatch.Files
	if s.opts.QueueConfigFile != "" {
		files = append(files, &filewatch.Files{Paths: []string{s.opts.QueueConfigFile}, Apply: func(contents [][]byte) error {
			rates, err := parseQueueConfig(contents[0])
			if err == nil {
				s.limits.setRates(rates)
			}
			return err
		}})
	}
	if s.opts.ServerSetFile != "" {
		files = append(files, &filewatch.Files{Paths: []string{s.opts.ServerSetFile}, Apply: func(contents [][]byte) error {
			n, err := parseServerSet(contents[0])
			if err == nil && n > 0 { // an empty file changes nothing
				s.limits.setServers(n)
			}
			return err
		}})
	}
	for _, f := range files {
		if err := f.Load(); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// reload reads a file again. An error is logged once, and what was read before stays in force.
func (s *Server) reload(f *filewatch.Files) {
	if _, err := f.Check(); err != nil {
		logging.Error(s.conns.Open(), message.Fields{"message": "could not reload a file; what it said before stays in force", "error": err.Error()})
	}
}

// maintain reloads the files, and watches the claims of other servers.
func (s *Server) maintain(files []*filewatch.Files) {
	monitor := time.NewTicker(s.opts.MonitorInterval)
	defer monitor.Stop()
	var reload <-chan time.Time
	if len(files) > 0 {
		ticker := time.NewTicker(s.opts.ReloadInterval)
		defer ticker.Stop()
		reload = ticker.C
	}
	s.watchClaims()
	for {
		select {
		case <-s.conns.Open().Done():
			return
		case <-reload:
			for _, f := range files {
				s.reload(f)
			}
		case <-monitor.C:
			s.watchClaims()
		}
	}
}

// watchClaims makes the dispatcher end the attempts of claims of other servers, or of this
// server before a restart, that time out.
func (s *Server) watchClaims() {
	ctx, cancel := context.WithTimeout(s.conns.Open(), s.opts.CallTimeout)
	defer cancel()
	if err := s.eachClaimed(ctx, s.watch); err != nil && s.conns.Open().Err() == nil {
		logging.Error(ctx, message.Fields{"message": "could not find the claims of PinLater workers; trying again later", "error": err.Error()})
	}
}

// eachClaimed calls do with the IDs of claimed jobs of each queue.
func (s *Server) eachClaimed(ctx context.Context, do func(ctx context.Context, queueName string, ids []string) error) error {
	query := driver.Query{States: []amboy.JobState{amboy.StateRunning}, Types: []string{s.opts.JobType}, Latest: true}
	for page := (driver.PageRequest{Limit: pageSize}); ; {
		found, err := s.driver.Find(ctx, query, page)
		if err != nil {
			return err
		}
		byQueue := map[string][]string{}
		for _, r := range found.Records {
			if strings.HasPrefix(r.Status.Owner, queue.AttemptOwner) {
				byQueue[r.Group] = append(byQueue[r.Group], r.JobID())
			}
		}
		for name, ids := range byQueue {
			if err := do(ctx, name, ids); err != nil {
				return err
			}
		}
		if found.Next == "" {
			return nil
		}
		page.After = found.Next
	}
}

func (s *Server) watch(ctx context.Context, queueName string, ids []string) error {
	_, err := s.dispatcher.Leased(ctx, queueName, s.opts.ClaimTimeout, ids...)
	return err
}
