package mongotest

import (
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/bson"
)

// Failure describes how commands fail. At most one of Times, Skip and Probability may be
// set. See https://github.com/mongodb/mongo/wiki/The-failCommand-Fail-Point.
type Failure struct {
	// Commands are the names of the commands that fail.
	Commands []string
	// Collection is the collection of the test's database on which they fail. Default: all, and
	// commands on none.
	Collection string
	// Times is the number of commands that fail. Default: all.
	Times int
	// Skip is the number of commands that succeed before all further ones fail.
	Skip int
	// Probability is the probability with which each command fails. Default: 1.
	Probability float64
	// ErrorCode is the code of the error with which commands fail, before they do
	// anything.
	ErrorCode int
	// ErrorLabels are the error's labels. Default: the labels of the code.
	ErrorLabels []string
	// CloseConnection closes the connection of commands instead, before they do anything.
	CloseConnection bool
	// Block delays commands, whether they fail or not. It is rounded to milliseconds.
	Block time.Duration
	// WriteConcernCode is the code of a write concern error that commands return after
	// they have done their work.
	WriteConcernCode int
}

// check refuses a failure without an effect, or with an ambiguous time.
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
		return errors.New("mongotest: a Failure must have at most one of Times, Skip and Probability")
	case f.Times < 0 || f.Skip < 0 || f.Probability < 0 || f.Probability > 1:
		return errors.New("mongotest: Times, Skip and Probability of a Failure must not be negative, and Probability must be at most 1")
	default:
		return nil
	}
}

// mode returns when the fail point applies.
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

// data returns which commands fail, and how.
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
