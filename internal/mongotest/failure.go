package mongotest

import (
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/bson"
)

// Failure is how commands fail. It has at most one of Times, Skip and
// Probability. See
// https://github.com/mongodb/mongo/wiki/The-failCommand-Fail-Point.
type Failure struct {
	// Commands are the names of the commands that fail.
	Commands []string
	// Times is how many of them fail. Default: all.
	Times int
	// Skip is how many of them succeed before all fail.
	Skip int
	// Probability is that with which each fails. Default: 1.
	Probability float64
	// ErrorCode is the code of the error with which they fail, without having
	// done anything.
	ErrorCode int
	// ErrorLabels are the error's labels. Default: those that the code has.
	ErrorLabels []string
	// CloseConnection closes their connection instead, before they do anything.
	CloseConnection bool
	// Block delays them, before they fail or when they do not fail otherwise.
	// It is rounded to milliseconds.
	Block time.Duration
	// WriteConcernCode is the code of a write concern error with which they
	// return after they have done their work.
	WriteConcernCode int
}

// check refuses a failure that fails nothing, or that can't be told when.
func (f Failure) check() error {
	chosen := 0
	for _, set := range []bool{f.Times != 0, f.Skip != 0, f.Probability != 0} {
		if set {
			chosen++
		}
	}
	switch {
	case len(f.Commands) == 0:
		return errors.New("mongotest: a Failure needs Commands")
	case len(f.data()) == 1:
		return errors.New("mongotest: a Failure needs an error, a closed connection or a delay")
	case chosen > 1:
		return errors.New("mongotest: a Failure has one of Times, Skip and Probability")
	case f.Times < 0 || f.Skip < 0 || f.Probability < 0 || f.Probability > 1:
		return errors.New("mongotest: Times, Skip and Probability of a Failure must not be negative, nor Probability more than 1")
	default:
		return nil
	}
}

// mode is when it fails.
func (f Failure) mode() any {
	switch {
	case f.Times > 0:
		return bson.D{{Key: "times", Value: f.Times}}
	case f.Skip > 0:
		return bson.D{{Key: "skip", Value: f.Skip}}
	case f.Probability > 0:
		return bson.D{{Key: "activationProbability", Value: f.Probability}}
	default:
		return "alwaysOn"
	}
}

// data is what fails, and how.
func (f Failure) data() bson.D {
	data := bson.D{{Key: "failCommands", Value: f.Commands}}
	if f.ErrorCode != 0 {
		data = append(data, bson.E{Key: "errorCode", Value: f.ErrorCode})
	}
	if f.ErrorLabels != nil {
		data = append(data, bson.E{Key: "errorLabels", Value: f.ErrorLabels})
	}
	if f.CloseConnection {
		data = append(data, bson.E{Key: "closeConnection", Value: true})
	}
	if f.Block > 0 {
		data = append(data, bson.E{Key: "blockConnection", Value: true}, bson.E{Key: "blockTimeMS", Value: max(1, f.Block.Milliseconds())})
	}
	if f.WriteConcernCode != 0 {
		data = append(data, bson.E{Key: "writeConcernError", Value: bson.D{{Key: "code", Value: f.WriteConcernCode}, {Key: "errmsg", Value: "failing by failCommand"}}})
	}
	return data
}
