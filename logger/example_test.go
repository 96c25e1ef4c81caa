package logger_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"

	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/message"
	"github.com/mongodb/grip/send"

	"github.com/mongodb/amboy/logger"
)

// Log without waiting for a slow logging service.
func ExampleNewQueueBackedSender() {
	service, err := send.NewInternalLogger("service", send.LevelInfo{Default: level.Info, Threshold: level.Info})
	if err != nil {
		log.Fatal(err)
	}
	sender, err := logger.NewQueueBackedSender(context.Background(), service, 1, 100)
	if err != nil {
		log.Fatal(err)
	}
	sender.Send(context.Background(), message.NewDefaultMessage(level.Info, "hello"))
	sender.Send(context.Background(), message.NewDefaultMessage(level.Debug, "not important enough"))
	if err = sender.Close(); err != nil {
		log.Fatal(err)
	}
	for service.HasMessage() {
		fmt.Println(service.GetMessage().Message)
	}
	// Output: hello
}

// withoutTime makes the output of an example deterministic.
func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// Route the messages of this library to log/slog.
func ExampleNewSlogSender() {
	l := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	sender, err := logger.NewSlogSender(l)
	if err != nil {
		fmt.Println(err)
		return
	}
	// A service calls grip.SetSender(sender) instead.
	sender.Send(context.Background(), message.NewFields(level.Error, message.Fields{"message": "job failed", "job_id": "a"}))
	// Output: level=ERROR msg="job failed" job_id=a
}
