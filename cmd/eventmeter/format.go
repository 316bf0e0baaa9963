package main

import (
	"errors"
	"fmt"
	goio "io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// The formats of results. Every command names those that it has.
const (
	formatText     = "text"
	formatJSON     = "json"
	formatMarkdown = "markdown"
	formatHTML     = "html"
	formatJUnit    = "junit"
)

// rendering writes one result in each format that a command has.
type rendering map[string]func(goio.Writer) error

// reportOf writes v by write.
func reportOf[T any](write func(goio.Writer, T) error, v T) func(goio.Writer) error {
	return func(w goio.Writer) error { return write(w, v) }
}

// formatFlags are the flag --format: WORD prints the result in a format, WORD=FILE
// writes it to a file as well.
type formatFlags struct {
	can   []string // the formats of the command
	given []string

	printed string // on standard output
	files   []formatFile
}

type formatFile struct{ format, name string }

// add adds the flag to a command that has the formats can.
func (f *formatFlags) add(c *cobra.Command, can ...string) {
	f.can = can
	help := "print the result as " + either(can) + "; FORMAT=FILE writes it to a file as well"
	if slices.Contains(can, formatJUnit) || slices.Contains(can, formatHTML) {
		help += " (repeatable)"
	}
	addFlags(c, []flagSpec{{&f.given, "format,f", help}})
	_ = c.RegisterFlagCompletionFunc("format", fixed(can...))
}

// check reads the flag. Without it, a command prints text.
func (f *formatFlags) check() error {
	f.printed, f.files = "", nil
	for _, text := range f.given {
		format, name, toFile := strings.Cut(text, "=")
		switch {
		case !slices.Contains(f.can, format):
			return usagef("--format %s: want %s", text, either(f.can))
		case toFile && name == "": // from an environment variable that is not set
		case toFile:
			f.files = append(f.files, formatFile{format, name})
		case f.printed != "":
			return usagef("--format %s and --format %s: standard output takes one; write the other to a file with --format %s=FILE",
				f.printed, format, format)
		default:
			f.printed = format
		}
	}
	if f.printed == "" {
		f.printed = formatText
	}
	return nil
}

// has reports whether a format is asked for, on standard output or in a file.
func (f *formatFlags) has(format string) bool {
	return f.printed == format || slices.ContainsFunc(f.files, func(x formatFile) bool { return x.format == format })
}

// isText reports whether standard output has text for people.
func (f *formatFlags) isText() bool { return f.printed == formatText }

// notes is where lines go that are not the result itself.
func (f *formatFlags) notes(io streams) goio.Writer {
	if f.isText() {
		return io.out
	}
	return io.err
}

// print writes the result to standard output.
func (f *formatFlags) print(io streams, r rendering) error { return r[f.printed](io.out) }

// write writes each file, even if another one cannot be written. Markdown is appended,
// because the summary of a CI job has several parts; other files are replaced.
func (f *formatFlags) write(r rendering) error {
	var errs []error
	for _, x := range f.files {
		mode := os.O_TRUNC
		if x.format == formatMarkdown {
			mode = os.O_APPEND
		}
		if err := toFile(x.name, mode, r[x.format]); err != nil {
			errs = append(errs, fmt.Errorf("--format %s=%s: %w", x.format, x.name, err))
		}
	}
	return errors.Join(errs...)
}

// all prints the result and writes the files.
func (f *formatFlags) all(io streams, r rendering) error {
	return errors.Join(f.print(io, r), f.write(r))
}

// either lists words: a, b or c.
func either(words []string) string {
	if n := len(words) - 1; n > 0 {
		return strings.Join(words[:n], ", ") + " or " + words[n]
	}
	return words[0]
}

func toFile(name string, mode int, write func(goio.Writer) error) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|mode, 0o644)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

// fixed completes a flag with words.
func fixed(words ...string) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}
