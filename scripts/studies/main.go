// Studies measures the answers of results/studies again, and writes their pages.
// Run it from anywhere in the module:
//
//	go run ./scripts/studies                     # the names of all studies
//	go run ./scripts/studies ttl                 # measures, and writes results/studies/DATE-ttl
//	go run ./scripts/studies -scale 0.1 ttl      # a tenth of the size, in a temporary directory
//	go run ./scripts/studies -page results/studies/2026-11-26-ttl # writes the page again from its data.json
//
// A study makes runs of the program against the reference server, one after the
// other. It writes data.json with its figures, the results of all its runs, and
// README.md with charts. The page is made from data.json alone, its conclusions
// included, so a study of another machine may come to other ones.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if len(os.Args) == 2 && os.Args[1] == goServerArg {
		err = goServer(os.Stdin, os.Stdout)
	} else {
		err = run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "studies:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	out   string
	page  string
	scale float64
	only  string
}

const (
	minScale = 0.001
	maxScale = 1
)

func run(ctx context.Context, args []string, out, log io.Writer) error {
	var o options
	fl := flag.NewFlagSet("studies", flag.ContinueOnError)
	fl.SetOutput(log)
	fl.StringVar(&o.out, "out", "", "directory of the study; it must not exist (default: results/studies/DATE-NAME, or a temporary one with -scale)")
	fl.StringVar(&o.page, "page", "", "write the page of this directory again, from its data.json, and measure nothing")
	fl.Float64Var(&o.scale, "scale", maxScale, "size of the study: multiplies numbers of subscriptions and durations")
	if err := fl.Parse(args); err != nil {
		return err
	}
	switch {
	case o.page != "" && fl.NArg() == 0:
		return writeAgain(o.page)
	case o.page != "":
		return errors.New("-page takes no name of a study: its directory says which one it is")
	case fl.NArg() == 0:
		for _, e := range all {
			fmt.Fprintf(out, "%-12s %s\n", e.name, e.question)
		}
		return nil
	case fl.NArg() > 1:
		return errors.New("want one study at a time")
	case !(o.scale >= minScale && o.scale <= maxScale): // NaN, too
		return fmt.Errorf("want a scale of %g to %g", minScale, float64(maxScale))
	}
	e, err := find(fl.Arg(0))
	if err != nil {
		return err
	}
	dir, err := o.directory(e.name)
	if err != nil {
		return err
	}
	if err := measure(ctx, e, o, dir, log); err != nil {
		return err
	}
	fmt.Fprintln(out, filepath.Join(dir, pageFile))
	return nil
}

// directory makes the directory of a study. A study of another size does not belong to the kept ones.
func (o options) directory(name string) (string, error) {
	dir := o.out
	if dir == "" {
		parent := os.TempDir()
		if o.scale == maxScale {
			root, err := moduleRoot()
			if err != nil {
				return "", err
			}
			parent = filepath.Join(root, "results", "studies")
		}
		dir = filepath.Join(parent, time.Now().UTC().Format(time.DateOnly)+"-"+name)
	}
	return dir, os.Mkdir(dir, 0o755)
}

// measure makes the runs of a study and writes its directory. Where it ends early, what was measured
// is kept, without a page: a page of half a study would say what was not measured.
func measure(ctx context.Context, e entry, o options, dir string, log io.Writer) (err error) {
	l, err := newLab(ctx, dir, o.scale, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	s := e.empty()
	began := time.Now()
	failed := s.measure(ctx, l)
	f := file{Schema: schema, Study: e.name, Scale: o.scale, Started: began.UTC().Truncate(time.Second), Finished: time.Now().UTC().Truncate(time.Second), Machine: l.machine(), Runs: l.runs, Partial: failed != nil}
	if err := f.save(dir, s); err != nil || failed != nil {
		return errors.Join(failed, err)
	}
	return writeAgain(dir)
}
