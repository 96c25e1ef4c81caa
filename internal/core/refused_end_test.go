package core_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy/internal/core"
)

func TestARefusedEndDoesNotBlockRecovery(t *testing.T) {
	s := newStory(t)
	r := s.run()
	s.tell(core.Finished{Run: r, End: core.End{Record: r.Record}})
	recovered := 0
	for range 600 { // a minute
		for commands := s.wait(100 * time.Millisecond); len(commands) > 0; commands = commands[1:] {
			switch do := commands[0].(type) {
			case core.Complete:
				commands = append(commands, s.tell(core.Written{Call: do.Call, Err: errors.New("refused")})...)
			case core.Renew:
				commands = append(commands, s.tell(core.Renewed{Call: do.Call})...)
			case core.CheckCancels:
				commands = append(commands, s.tell(core.CancelsFound{Call: do.Call})...)
			case core.Forget:
				commands = append(commands, s.tell(core.Forgotten{Call: do.Call})...)
			case core.Recover:
				recovered++
				commands = append(commands, s.tell(core.Recovered{Call: do.Call})...)
			}
		}
	}
	assert.GreaterOrEqual(t, recovered, 8, "in a minute, with a heartbeat of five seconds")
}

func TestSeveralRefusedEndsDoNotBlockOtherEnds(t *testing.T) {
	s := newStory(t)
	var runs []*core.Run
	for range 6 {
		runs = append(runs, s.run())
	}
	good := runs[5]
	for _, r := range runs {
		s.tell(core.Finished{Run: r, End: core.End{Record: r.Record}})
	}
	written := false
	for range 50 { // five seconds
		for commands := s.wait(100 * time.Millisecond); len(commands) > 0; commands = commands[1:] {
			switch do := commands[0].(type) {
			case core.Complete:
				answer := core.Written{Call: do.Call, Errs: []error{nil}}
				if len(do.Runs) > 1 || do.Runs[0] != good {
					answer.Err = errors.New("refused")
				}
				commands = append(commands, s.tell(answer)...)
			case core.Done:
				written = written || do.Run == good
			}
		}
	}
	assert.True(t, written)
}

func TestARefusedEndDoesNotDelayTheNextEnd(t *testing.T) {
	s := newStory(t)
	bad, other := s.run(), s.run()
	s.end(bad)
	refuse := func(commands []core.Command) {
		for _, do := range all[core.Complete](commands) {
			answer := core.Written{Call: do.Call, Errs: []error{nil}}
			if do.Runs[0] == bad {
				answer.Err = errors.New("refused")
			}
			s.tell(answer)
		}
	}
	s.tell(core.Finished{Run: other, End: core.End{Record: other.Record}})
	for range 300 { // half a minute, in which the pauses between its tries get long
		refuse(s.wait(100 * time.Millisecond))
	}
	good := s.run()
	s.tell(core.Finished{Run: good, End: core.End{Record: good.Record}})
	written := false
	for range 10 { // a second
		commands := s.wait(100 * time.Millisecond)
		refuse(commands)
		for _, do := range all[core.Complete](commands) {
			written = written || do.Runs[0] == good
		}
	}
	assert.True(t, written)
}

func TestAGoodEndIsWrittenWithinASecondBesideManyRefusedEnds(t *testing.T) {
	s := newStory(t)
	var runs []*core.Run
	for range 11 {
		runs = append(runs, s.run())
	}
	good := runs[10]
	written := false
	answer := func(commands []core.Command) {
		for ; len(commands) > 0; commands = commands[1:] {
			switch do := commands[0].(type) {
			case core.Complete:
				answer := core.Written{Call: do.Call, Errs: []error{nil}}
				if len(do.Runs) > 1 || do.Runs[0] != good {
					answer.Err = errors.New("refused")
				}
				commands = append(commands, s.tell(answer)...)
			case core.Done:
				written = written || do.Run == good
			}
		}
	}
	for _, r := range runs[:10] {
		answer(s.tell(core.Finished{Run: r, End: core.End{Record: r.Record}}))
	}
	for range 100 { // ten seconds
		answer(s.wait(100 * time.Millisecond))
	}
	answer(s.tell(core.Finished{Run: good, End: core.End{Record: good.Record}}))
	for range 10 {
		answer(s.wait(100 * time.Millisecond))
	}
	assert.True(t, written)
}

func TestAnEndThatFailedAloneSharesNoCall(t *testing.T) {
	s := newStory(t)
	bad := s.run()
	var good []*core.Run
	for range 1200 {
		good = append(good, s.run())
	}
	known, written := false, 0
	answer := func(commands []core.Command) {
		for ; len(commands) > 0; commands = commands[1:] {
			switch do := commands[0].(type) {
			case core.Complete:
				answer := core.Written{Call: do.Call, Errs: make([]error, len(do.Runs))}
				if slices.Contains(do.Runs, bad) {
					answer.Err = errors.New("refused")
					assert.True(t, !known || len(do.Runs) == 1, "%d ends in a call", len(do.Runs))
				}
				commands = append(commands, s.tell(answer)...)
			case core.Done:
				written++
				known = true
			}
		}
	}
	answer(s.tell(core.Finished{Run: bad, End: core.End{Record: bad.Record}}))
	answer(s.wait(time.Second))
	for some := range slices.Chunk(good, 3) {
		for _, r := range some {
			answer(s.tell(core.Finished{Run: r, End: core.End{Record: r.Record}}))
		}
		answer(s.wait(10 * time.Millisecond))
	}
	assert.Equal(t, len(good), written)
}
