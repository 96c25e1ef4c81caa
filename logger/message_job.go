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

// NewSendMessageJob makes a job that sends a message. The message and the
// sender are held in memory and the type is not registered: such a job can't be
// stored, and only local queues accept it. The job fails where either is nil,
// and where its context ended before it ran. What goes wrong with sending is
// for the sender's error handler and not an error of the job.
func NewSendMessageJob(m message.Composer, sender send.Sender) amboy.Job {
	j := &sendMessageJob{message: m, sender: sender}
	j.SetID(fmt.Sprintf("send-message-%d", job.GetNumber()))
	j.SetType(amboy.JobType{Name: "send-message", Version: 1})
	return j
}

type sendMessageJob struct {
	message message.Composer
	sender  send.Sender

	job.Base
}

func (j *sendMessageJob) Run(ctx context.Context) {
	if ctx.Err() != nil {
		j.AddError(fmt.Errorf("not sending log message of job %q: %w", j.ID(), context.Cause(ctx)))
		return
	}
	defer j.MarkComplete()
	if j.message == nil || j.sender == nil {
		j.AddError(errors.New("sending a log message: message and sender must not be nil"))
		return
	}
	j.sender.Send(j.message)
}
