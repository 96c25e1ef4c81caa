package logger

import (
	"context"
	"errors"
	"fmt"

	"github.com/mongodb/grip/message"
	"github.com/mongodb/grip/send"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
)

// NewSendMessageJob makes a job that sends a message. The message and the sender are held
// in memory and the type is not registered, so only local queues accept the job. The job
// fails if either is nil. It sends the message even if its context has ended, because
// services log most when they stop; the sender gets a context that does not end. An error
// of sending goes to the sender's error handler and is not an error of the job.
func NewSendMessageJob(m message.Composer, sender send.Sender) amboy.Job {
	return newSendMessageJob(context.Background(), m, sender)
}

// newSendMessageJob makes a job whose message is sent with the values of ctx, such as the
// span in which it was logged.
func newSendMessageJob(ctx context.Context, m message.Composer, sender send.Sender) amboy.Job {
	j := &sendMessageJob{ctx: context.WithoutCancel(ctx), message: m, sender: sender}
	j.SetID(fmt.Sprintf("send-message-%d", job.GetNumber()))
	j.SetType(amboy.JobType{Name: "send-message", Version: 1})
	return j
}

type sendMessageJob struct {
	ctx     context.Context
	message message.Composer
	sender  send.Sender

	job.Base
}

func (j *sendMessageJob) Run(context.Context) {
	defer j.MarkComplete()
	if j.message == nil || j.sender == nil {
		j.AddError(errors.New("sending a log message: message and sender must not be nil"))
		return
	}
	j.sender.Send(j.ctx, j.message) //nolint:contextcheck // the context of Run may have ended
}
