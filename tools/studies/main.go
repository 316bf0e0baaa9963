// Studies measures the answers of results/studies again. A study is a directory with a study.yaml:
//
//	go run ./tools/studies run results/studies/2026-11-27-ttl   # measures into results/studies/TODAY-ttl
//	go run ./tools/studies run -scale 0.1 -out DIR results/studies/2026-11-27-ttl
//	go run ./tools/studies render results/studies/2026-11-27-ttl # reads its results again, as after a change
//
// It runs a matrix of eventmeter's commands, one after the other, keeps their results in runs, reads
// figures from them by path into data.json, and writes tables and charts. The text of the page is
// written by people.
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
	err := command(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "studies:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, in io.Reader, out, log io.Writer) error {
	if len(args) == 0 {
		return errors.New("want run or render, and the directory of a study")
	}
	var o options
	fl := flag.NewFlagSet("studies "+args[0], flag.ContinueOnError)
	fl.SetOutput(log)
	o.scale = 1
	if args[0] == "run" {
		fl.StringVar(&o.out, "out", "", "directory of the results; it must not exist\n"+
			"(default: results/studies/TODAY-NAME, or a temporary one with -scale)")
		fl.Float64Var(&o.scale, "scale", o.scale, "size of the study, 0.001 to 1:\n"+
			"multiplies numbers of subscriptions and durations")
		fl.StringVar(&o.binary, "eventmeter", "", "the program (default: it is built)")
	}
	if err := fl.Parse(args[1:]); err != nil {
		return err
	}
	if args[0] == "go-sdk-server" {
		return serveGoSDK(in, out)
	}
	if fl.NArg() != 1 {
		return errors.New("want the directory of one study")
	}
	o.from = filepath.Clean(fl.Arg(0))
	switch args[0] {
	case "run":
		if !(o.scale >= 0.001 && o.scale <= 1) { // NaN, too
			return errors.New("want a scale of 0.001 to 1")
		}
		if err := o.mkdir(); err != nil {
			return err
		}
		if err := measure(ctx, &o, log); err != nil {
			return err
		}
		fmt.Fprintln(out, filepath.Join(o.out, pageFile))
		return nil
	case "render":
		return render(o.from)
	}
	return fmt.Errorf("no command %q; there are run and render", args[0])
}

// mkdir makes the directory of a measurement. One of another size does not belong to the kept ones.
func (o *options) mkdir() error {
	if o.out == "" {
		parent := filepath.Dir(o.from)
		if o.scale != 1 {
			parent = os.TempDir()
		}
		o.out = filepath.Join(parent, time.Now().UTC().Format(time.DateOnly)+"-"+name(o.from))
	}
	var err error
	if o.out, err = filepath.Abs(o.out); err != nil {
		return err
	}
	return os.Mkdir(o.out, 0o755)
}
