package logger_test

import (
	"context"
	"fmt"
	"log"

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
