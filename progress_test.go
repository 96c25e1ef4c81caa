package amboy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy"
)

func texts(p amboy.JobProgress) (texts []string) {
	for _, line := range p.Log {
		texts = append(texts, line.Text)
	}
	return texts
}

func TestLogKeepsTheNewestLines(t *testing.T) {
	var p amboy.JobProgress
	at := time.Now()
	for i := range amboy.MaxLogLines + 3 {
		p.AddLine(amboy.LogLine{Time: at, Text: fmt.Sprint(i)})
	}
	assert.Len(t, p.Log, amboy.MaxLogLines)
	assert.Equal(t, amboy.LogLine{Time: at, Text: "3"}, p.Log[0])
	assert.Equal(t, fmt.Sprint(amboy.MaxLogLines+2), p.Log[amboy.MaxLogLines-1].Text)
	assert.Equal(t, 3, p.DroppedLines)
}

func TestLogIsBoundedInBytes(t *testing.T) {
	var p amboy.JobProgress
	const lines = amboy.MaxLogBytes / 1000
	for i := range lines + 2 {
		p.AddLine(amboy.LogLine{Text: strings.Repeat(string(rune('a'+i)), 1000)})
	}
	assert.Len(t, p.Log, lines)
	assert.Equal(t, 2, p.DroppedLines)
	assert.Equal(t, byte('c'), p.Log[0].Text[0])
}

func TestLogLineIsCut(t *testing.T) {
	var p amboy.JobProgress
	p.AddLine(amboy.LogLine{Text: strings.Repeat("é", amboy.MaxLogLineBytes)})
	p.AddLine(amboy.LogLine{Text: strings.Repeat("x", amboy.MaxLogLineBytes)})
	p.AddLine(amboy.LogLine{Text: "a\xffb"})
	cut := p.Log[0].Text
	assert.LessOrEqual(t, len(cut), amboy.MaxLogLineBytes)
	assert.Greater(t, len(cut), amboy.MaxLogLineBytes-4)
	assert.True(t, utf8.ValidString(cut))
	assert.True(t, strings.HasSuffix(cut, "é…"))
	assert.Equal(t, []string{strings.Repeat("x", amboy.MaxLogLineBytes), "a?b"}, texts(p)[1:])
}

func TestALongLogLineReplacesInvalidUTF8(t *testing.T) {
	var p amboy.JobProgress
	p.AddLine(amboy.LogLine{Text: "a\xffb" + strings.Repeat("x", amboy.MaxLogLineBytes)})
	p.AddLine(amboy.LogLine{Text: strings.Repeat("\xbf", 2*amboy.MaxLogLineBytes)})
	assert.True(t, strings.HasPrefix(p.Log[0].Text, "a?bx"))
	assert.Equal(t, "?…", p.Log[1].Text)
}

func TestReportBoundsTheMessage(t *testing.T) {
	var p amboy.JobProgress
	at := time.Now()
	p.Report(0.5, strings.Repeat("x", amboy.MaxLogLineBytes+1), at)
	assert.InDelta(t, 0.5, p.Fraction, 0)
	assert.Equal(t, at, p.Time)
	assert.Len(t, p.Message, amboy.MaxLogLineBytes)
	assert.True(t, strings.HasSuffix(p.Message, "x…"))
}

func TestCloneOfProgressSharesNothing(t *testing.T) {
	p := amboy.JobProgress{Log: []amboy.LogLine{{Text: "a"}}}
	clone := p.Clone()
	clone.Log[0].Text = "b"
	assert.Equal(t, []string{"a"}, texts(p))
}
