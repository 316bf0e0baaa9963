package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/eventmeter/eventmeter/internal/report"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// TestHostileTextInTheView: what a target may put into a look at a run, or a step of
// a search, or an error, reaches the terminal as text of its line.
func TestHostileTextInTheView(t *testing.T) {
	const marker = "HOSTILE"
	for _, text := range []string{
		"\x1b[31mHOSTILE\x1b[0m", "\x1b]0;owned\aHOSTILE", "\u009b31mHOSTILE",
		"HOSTILE\r\n::error title=forged::all is lost", "::error::HOSTILE", "HOSTILE\n##vso[task.complete]",
		"HOSTILE\b\b", "HOSTILE\u202etxt.exe", "HOSTILE\u2028::error::b", "HOSTILE\xff\x00",
	} {
		p := run.Progress{Phase: "measure", Lane: text, Trouble: text, Live: ledger.Live{Lanes: []ledger.LiveLane{{Name: text}}}}
		var plain bytes.Buffer
		v := newView(&plain, &profiles.Profile{Name: text}, viewOptions{plain: true})
		v.update(p)
		for name, lines := range map[string][]string{
			"plain progress": strings.Split(strings.TrimSuffix(plain.String(), "\n"), "\n"),
			"a frame":        v.frames.next(p, 200, time.Now()),
			"a step":         {stepLine(results.CapacityStep{Verdict: text, Purpose: text, Reasons: []string{text, text}})},
			"an error":       {errorText(errors.New(strings.ReplaceAll(text, "\n", " ")))},
			"a panic":        {bugText(text, "here")},
			"a warning":      {report.Clean(text)},
		} {
			if all := strings.Join(lines, ""); !strings.Contains(all, marker) {
				t.Errorf("%q in %s: it does not show %s: %q", text, name, marker, all)
			}
			for _, line := range lines {
				if strings.HasPrefix(strings.TrimLeft(line, " "), "::") || strings.Contains(line, "##vso[") {
					t.Errorf("%q in %s: a command: %q", text, name, line)
				}
				for _, r := range line {
					if unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp) {
						t.Errorf("%q in %s: the character %U in %q", text, name, r, line)
					}
				}
			}
		}
	}
}
