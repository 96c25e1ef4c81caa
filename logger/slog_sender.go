package logger

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"

	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/message"
	"github.com/mongodb/grip/send"
)

// NewSlogSender returns a sender of grip that writes to a logger of log/slog, with the fields of a
// message as attributes. It routes the messages of this library:
//
//	sender, err := logger.NewSlogSender(slog.Default())
//	if err == nil {
//		err = grip.SetSender(sender)
//	}
//
// Error and above become slog.LevelError, notice becomes slog.LevelInfo, and trace becomes
// slog.LevelDebug. The threshold of the sender is debug if the logger writes debug records, and
// otherwise info, until SetLevel sets one. The threshold trace counts as none: it is grip's default,
// which grip.SetSender sets. NewSlogSender returns an error for a nil logger. The sender is safe for
// concurrent use; it blocks as the logger's handler does.
func NewSlogSender(l *slog.Logger) (send.Sender, error) {
	if l == nil {
		return nil, errors.New("invalid slog sender: logger must not be nil")
	}
	s := &slogSender{Base: send.NewBase("slog"), logger: l}
	if err := s.SetLevel(send.LevelInfo{Default: level.Info, Threshold: level.Trace}); err != nil {
		return nil, err
	}
	return s, nil
}

type slogSender struct {
	*send.Base
	logger *slog.Logger
}

// Level returns the level that was set, with the logger's threshold if none was.
func (s *slogSender) Level() send.LevelInfo {
	set := s.Base.Level()
	if set.Threshold != level.Trace {
		return set
	}
	set.Threshold = level.Info
	if s.logger.Enabled(context.Background(), slog.LevelDebug) {
		set.Threshold = level.Debug
	}
	return set
}

func (s *slogSender) Send(ctx context.Context, m message.Composer) {
	if !m.Loggable() || !s.Base.Level().ShouldLog(m) || !s.logger.Enabled(ctx, slogLevel(m.Priority())) {
		return
	}
	fields, ok := m.Raw().(message.Fields)
	text, isText := fields["message"].(string)
	if !ok || !isText {
		s.logger.Log(ctx, slogLevel(m.Priority()), m.String())
		return
	}
	attrs := make([]slog.Attr, 0, len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if _, ofGrip := fields[name].(*message.Base); name != "message" && !ofGrip { // the record has time and level
			attrs = append(attrs, slog.Any(name, fields[name]))
		}
	}
	s.logger.LogAttrs(ctx, slogLevel(m.Priority()), text, attrs...)
}

// Flush does nothing: nothing is held back.
func (s *slogSender) Flush(context.Context) error { return nil }

func slogLevel(p level.Priority) slog.Level {
	switch {
	case p >= level.Error:
		return slog.LevelError
	case p >= level.Warning:
		return slog.LevelWarn
	case p >= level.Info:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}
