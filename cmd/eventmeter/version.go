package main

import (
	"cmp"
	"fmt"
	goio "io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// A release build sets these with -ldflags "-X main.release=v0.1.0 -X main.commit=…".
// Without them, the information that Go puts into binaries is used.
var release, commit string

// build says what this program was built from.
type build struct {
	Version  string `json:"version"`          // of the module; "devel" = not a release
	Commit   string `json:"commit,omitempty"` // empty = not known
	Modified bool   `json:"modified"`         // the working tree had changes
	Go       string `json:"go"`
	System   string `json:"system"`
}

func buildOf(info *debug.BuildInfo) build {
	b := build{Version: release, Commit: commit, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
	if info != nil {
		if v := info.Main.Version; b.Version == "" && v != "(devel)" {
			b.Version = v
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = cmp.Or(b.Commit, s.Value)
			case "vcs.modified":
				b.Modified = s.Value == "true" && commit == ""
			}
		}
	}
	b.Version = cmp.Or(b.Version, "devel")
	return b
}

func thisBuild() build {
	info, _ := debug.ReadBuildInfo()
	return buildOf(info)
}

// version returns the version of this program, as results have it.
func version() string { return thisBuild().Version }

// String returns one line for people.
func (b build) String() string {
	from := "commit not known"
	if b.Commit != "" {
		from = "commit " + b.Commit[:min(12, len(b.Commit))]
	}
	if b.Modified {
		from += ", modified"
	}
	return fmt.Sprintf("%s (%s), %s, %s", b.Version, from, b.Go, b.System)
}

func newVersionCommand(io streams) *cobra.Command {
	var f formatFlags
	c := &cobra.Command{
		Use: "version", Short: "Print the version and the commit of this program", Args: cobra.NoArgs,
		Example: "  eventmeter version --format json",
		RunE: func(*cobra.Command, []string) error {
			if err := f.check(); err != nil {
				return err
			}
			b := thisBuild()
			return f.all(io, rendering{
				formatText: func(w goio.Writer) error { _, err := fmt.Fprintf(w, "eventmeter %s\n", b); return err },
				formatJSON: indented(b),
			})
		},
	}
	f.add(c, formatText, formatJSON)
	return c
}
