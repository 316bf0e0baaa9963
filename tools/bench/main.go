//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventmeter/eventmeter/internal/health"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/tools/proc"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

// run is the whole command, or a child process of it.
func run(ctx context.Context, args []string, in io.Reader, out, progress io.Writer) error {
	if len(args) > 0 && args[0] == childArg {
		return runChild(context.WithoutCancel(ctx), in, out) // it ends with its input
	}
	c := newCommand(out, progress)
	c.SetArgs(args)
	c.SetOut(out)
	c.SetErr(progress)
	return c.ExecuteContext(ctx)
}

func newCommand(out, progress io.Writer) *cobra.Command {
	b := &bench{progress: progress}
	var dir string
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure what eventmeter's client side costs, beside reference clients",
		Long: `bench measures memory per stream, CPU per delivery, poll and refresh, and the error of
receive times, of eventmeter and of reference clients in turn. It prints one table.
A full run takes about half an hour; the machine should otherwise be idle.

Rows: ` + strings.Join(rowNames(), ", ") + `.
A name without its last part, such as error, stands for all rows that begin with it.`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(c *cobra.Command, _ []string) error {
			r, interrupted := b.measure(c.Context())
			if r == nil {
				return interrupted
			}
			table := r.Table()
			if dir != "" {
				if err := r.write(dir, table); err != nil {
					return err
				}
			}
			_, err := io.WriteString(out, table)
			return errors.Join(interrupted, err)
		},
	}
	fl := c.Flags()
	fl.StringSliceVar(&b.only, "only", nil, "rows to measure, with commas between them (default all)")
	fl.Float64Var(&b.scale, "scale", 1, "factor for numbers of streams, 0.001 to 4; durations become shorter by its root")
	fl.IntVar(&b.repeats, "repeats", 3, "how often each client of a row is measured, in turn")
	fl.StringVar(&b.program, "eventmeter", "", "program to measure (default: built from this checkout)")
	fl.StringVar(&dir, "out", "", "folder for bench.json and README.md")
	return c
}

// report is the result of a run. Its JSON form is bench.json.
type report struct {
	Schema       string        `json:"schema"`
	Began        time.Time     `json:"began"`
	Scale        float64       `json:"scale"`
	Host         results.Host  `json:"host"`
	Measurements []measurement `json:"measurements"`
	Notes        []string      `json:"notes,omitempty"`
}

func (r *report) write(dir, table string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "bench.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "README.md"), []byte(table), 0o644)
}

// bench is a run of the command.
type bench struct {
	only     []string
	scale    float64
	repeats  int
	program  string
	progress io.Writer

	self []string // starts a child
	dir  string   // for files of the children
}

// prepare checks the options and builds eventmeter.
func (b *bench) prepare(ctx context.Context) error {
	switch {
	case !(b.scale >= 0.001 && b.scale <= 4):
		return fmt.Errorf("scale %g: use 0.001 to 4", b.scale)
	case b.repeats < 1 || b.repeats > 15:
		return fmt.Errorf("%d repeats: use 1 to 15", b.repeats)
	}
	for _, name := range b.only {
		if !slices.ContainsFunc(rows, func(r row) bool { return r.named(name) }) {
			return fmt.Errorf("no row %q: use %s", name, strings.Join(rowNames(), ", "))
		}
	}
	path, err := os.Executable()
	if err != nil {
		return err
	}
	b.self = []string{path, childArg}
	if b.program == "" {
		if b.program, err = proc.Build(ctx, b.dir); err != nil {
			return err
		}
	}
	b.program, err = filepath.Abs(b.program)
	return err
}

// measure measures the rows. A client that cannot be measured becomes a note. When ctx ends, the report has
// what was measured before.
func (b *bench) measure(ctx context.Context) (*report, error) {
	var err error
	if b.dir, err = os.MkdirTemp("", "eventmeter-bench-"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(b.dir)
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	r := &report{Schema: "eventmeter.bench/2", Began: time.Now().UTC(), Scale: b.scale, Host: health.Host()}
	for _, row := range rows {
		if len(b.only) > 0 && !slices.ContainsFunc(b.only, row.named) {
			continue
		}
		specs, err := row.specs(b.scale, r.Host.Files)
		if err != nil {
			r.Notes = append(r.Notes, fmt.Sprintf("%s: %v.", row.name, err))
			continue
		}
		for round := range row.rounds(b.repeats) {
			for i, c := range row.clients {
				m, err := b.once(ctx, row, specs[i])
				if ctx.Err() != nil {
					return r, ctx.Err()
				}
				if err != nil {
					r.Notes = append(r.Notes, fmt.Sprintf("%s, %s: %v.", row.name, c.name, err))
					continue
				}
				m.Row, m.Client, m.Round = row.name, c.name, round
				if i == 0 { // the others make their calls on as many connections
					for j := range specs {
						specs[j].Conns = int(m.Figures["connections"])
					}
				}
				r.Measurements = append(r.Measurements, *m)
			}
		}
	}
	return r, nil
}

// once measures one client.
func (b *bench) once(ctx context.Context, row row, s spec) (*measurement, error) {
	fmt.Fprintf(b.progress, "%s: %s, %d streams\n", row.name, s.Name, s.Streams)
	s.Program = b.program
	var err error
	if s.Dir, err = os.MkdirTemp(b.dir, "run-"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(s.Dir)
	return measure(ctx, b.self, s)
}
