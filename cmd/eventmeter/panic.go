package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"unicode/utf8"

	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/report"
)

// handlePanics ends the program as [guarded] does when one of its goroutines
// panics.
func handlePanics() {
	crash.Handle(func(p any) {
		sayBug(os.Stderr, p)
		os.Exit(exitFailure)
	})
}

// guarded calls f, which is the whole command, writes its error to stderr, and
// gives the exit code. A panic ends with exitFailure: Go's own code, 2, would say
// that the profile is bad.
func guarded(stderr io.Writer, f func() error) (code int) {
	defer func() {
		if p := recover(); p != nil {
			sayBug(stderr, p)
			code = exitFailure
		}
	}()
	err := f()
	if err != nil && err.Error() != "" {
		fmt.Fprintln(stderr, "eventmeter: "+errorText(err))
	}
	return exitCode(err)
}

// sayBug prints the line about a panic, and the stack if GOTRACEBACK asks for it.
// Call it while the panic is being recovered: from the deferred function or one that
// it calls.
func sayBug(stderr io.Writer, p any) {
	fmt.Fprintln(stderr, bugText(p, origin()))
	if how := os.Getenv("GOTRACEBACK"); how != "" && how != "none" && how != "0" {
		fmt.Fprintf(stderr, "%s", debug.Stack())
	}
}

// bugText returns the line about a panic: what happened, where, and what to report.
func bugText(p any, where string) string {
	return fmt.Sprintf(
		"eventmeter: internal error: %s (%s, version %s); this is a bug: please report this line, the command line and the "+
			"profile; GOTRACEBACK=single prints the stack",
		errorLine(fmt.Sprint(p)),
		where,
		version(),
	)
}

// origin returns the function and line that panicked, in this program or a library.
// It must be called while the panic is being recovered.
func origin() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	panicked, first := false, ""
	for {
		f, more := frames.Next()
		inRuntime := strings.HasPrefix(f.Function, "runtime.")
		switch {
		case f.Function == "runtime.gopanic":
			panicked = true
		case panicked && !inRuntime:
			place := fmt.Sprintf("%s, %s:%d", f.Function[strings.LastIndexByte(f.Function, '/')+1:], filepath.Base(f.File), f.Line)
			if strings.HasPrefix(f.Function, "github.com/eventmeter/") || strings.HasPrefix(f.Function, "main.") {
				return place
			}
			if first == "" {
				first = place
			}
		}
		if !more {
			return first
		}
	}
}

// The bounds of the text of an error.
const (
	maxErrorLine  = 2000 // bytes
	maxErrorLines = 50
)

// errorText formats an error for people. Long lines are cut in the middle, because
// they begin with the place and end with the fix; of many lines only the first are
// kept.
func errorText(err error) string {
	lines := strings.Split(err.Error(), "\n")
	more := len(lines) - maxErrorLines
	if more > 0 {
		lines = append(lines[:maxErrorLines], fmt.Sprintf("and %d more lines", more))
	}
	for i := range lines {
		lines[i] = errorLine(lines[i])
	}
	return strings.Join(lines, "\n")
}

func errorLine(s string) string {
	if len(s) > maxErrorLine {
		head, tail := s[:maxErrorLine*2/3], s[len(s)-maxErrorLine/3:]
		for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
			tail = tail[1:]
		}
		s = strings.ToValidUTF8(head, "") + " ... " + tail
	}
	return report.Clean(s)
}
