package main

import (
	"context"
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// film runs the profile compare on a terminal of 100 columns, and returns a
// page with the picture that stood there near the end of the measured part.
func (s *studio) film(ctx context.Context, dir string) ([]byte, error) {
	record := filepath.Join(s.temp, "typescript")
	inside := fmt.Sprintf("stty cols 100 rows 30; TERM=xterm-256color %s run --profile compare --out %s", s.program, dir)
	err := s.command(ctx, nil, "script", "-qec", inside, record)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) { // its exit code is the program's
		return nil, err
	}
	raw, err := os.ReadFile(record)
	if err != nil {
		return nil, err
	}
	frame := lastFrame(string(raw), "▸ measure")
	if frame == "" {
		return nil, errors.New("the terminal never showed the measured part")
	}
	return []byte(terminalPage(frame)), nil
}

// beforeFrame is what the live view writes before each picture: to the begin of
// the last one, and away with it.
var beforeFrame = regexp.MustCompile(`(?:\x1b\[[0-9]+A)?\r\x1b\[J`)

// lastFrame is the last picture of a recording that holds the text.
func lastFrame(raw, text string) (frame string) {
	for _, f := range beforeFrame.Split(raw, -1) {
		if strings.Contains(f, text) {
			frame = f
		}
	}
	return strings.TrimRight(strings.ReplaceAll(frame, "\r\n", "\n"), "\n")
}

// The classes of the escape codes that the live view uses.
var inks = map[string]string{"1": "bold", "2": "dim", "31": "red", "32": "green", "33": "yellow", "94": "blue"}

var paint = regexp.MustCompile(`\x1b\[([0-9]*)m`)

// terminalPage is a page that looks as a terminal does.
func terminalPage(frame string) string {
	var b strings.Builder
	open, at := 0, 0
	for _, m := range paint.FindAllStringSubmatchIndex(frame, -1) {
		b.WriteString(html.EscapeString(frame[at:m[0]]))
		at = m[1]
		if class := inks[frame[m[2]:m[3]]]; class != "" {
			b.WriteString(`<span class="` + class + `">`)
			open++
			continue
		}
		b.WriteString(strings.Repeat("</span>", open))
		open = 0
	}
	b.WriteString(html.EscapeString(frame[at:]))
	return `<!doctype html><meta charset="utf-8"><style>
body { margin: 0; background: #16181d; color: #d8dbe2; }
pre { margin: 0; padding: 18px 20px; font: 15px/1.45 "DejaVu Sans Mono", monospace; }
.bold { font-weight: bold; } .dim { color: #868c99; }
.red { color: #f0716b; } .green { color: #4cc38a; } .yellow { color: #e2a03f; } .blue { color: #6aa8f7; }
</style><pre>` + b.String() + "</pre>\n"
}
