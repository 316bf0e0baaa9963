package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/eventmeter/eventmeter/internal/bench"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

// serveFlags are the flags of the serve command.
type serveFlags struct {
	options  refserver.Options
	faults   string
	ready    bool
	untilEOF bool
	verbose  bool
}

func newServeCommand(io streams) *cobra.Command {
	var f serveFlags
	o := &f.options
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the reference target alone",
		Long: `Serve runs the reference target: a real MCP server that delivers events by poll,
push and webhook. It prints where it serves and how an event is injected, and
runs until it is interrupted.

With --stdio it speaks MCP over standard input and output instead, to the
program that starts it, and runs until its input ends. A line of JSON on standard
error says where events are injected.

By default it delivers webhooks to public addresses with valid certificates only.
For a load test on this machine, give --allow-private-callbacks and either
--callback-insecure or --callback-ca.`,
		Example: `  eventmeter serve --addr 127.0.0.1:8080 --admin 127.0.0.1:8081 --allow-private-callbacks --callback-insecure
  curl -H 'Content-Type: application/json' -d '{"name":"chat.message","data":{"channel":"channel-0","text":"hello"}}' http://127.0.0.1:8081/inject
  eventmeter run --command 'eventmeter serve --stdio'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Stdio && !c.Flags().Changed("admin") {
				o.AdminAddr = "127.0.0.1:0" // several may run side by side
			}
			return serve(c.Context(), f, io)
		},
	}
	f.add(c)
	return c
}

// serve is the serve command.
func serve(ctx context.Context, f serveFlags, io streams) error {
	if f.verbose {
		f.options.Logger = slog.New(slog.NewTextHandler(io.err, nil))
	}
	var err error
	if f.faults != "" {
		if f.options.Faults, err = faults.Load(f.faults); err != nil {
			return usageError{err}
		}
	}
	s, err := refserver.New(f.options)
	if err != nil {
		return usageError{err}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := s.Start(ctx); err != nil {
		return cannotListen(err)
	}
	if f.options.Stdio {
		return serveStdio(ctx, s, io)
	}
	ready := bench.Ready{URL: s.URL(), TLSURL: s.TLSURL(), Admin: s.AdminURL(), Cert: string(s.CertPEM()), PID: os.Getpid()}
	if f.ready {
		err = json.NewEncoder(io.out).Encode(ready)
	} else {
		err = announce(io.out, ready)
	}
	if err == nil {
		waitForEnd(ctx, f.untilEOF, io)
	}
	if closeErr := s.Close(context.WithoutCancel(ctx)); err == nil {
		err = closeErr
	}
	return err
}

// cannotListen says how to mend an address that cannot be served at: what is no
// address is the fault of who wrote it.
func cannotListen(err error) error {
	var address *net.AddrError
	switch {
	case errors.As(err, &address):
		return usageError{fmt.Errorf("%w; write an address like 127.0.0.1:8080", err)}
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w; choose another with --addr, --admin or --tls-addr", err)
	}
	return err
}

func announce(w io.Writer, r bench.Ready) error {
	tls := ""
	if r.TLSURL != "" {
		tls = "\n            " + r.TLSURL
	}
	_, err := fmt.Fprintf(w, `MCP         %s%s
admin       %s

inject      curl -H 'Content-Type: application/json' -d '{"name":"chat.message","data":{"channel":"channel-0","text":"hello"}}' %s/inject
load it     eventmeter run --target %s --token any --upstream-url %s

Ctrl-C ends it.
`, r.URL, tls, r.Admin, r.Admin, r.URL, r.Admin)
	return err
}

// waitForEnd returns on an interrupt and, where asked for, at the end of
// standard input.
func waitForEnd(ctx context.Context, untilEOF bool, s streams) {
	ended := make(chan struct{})
	if untilEOF {
		// It ends with the process at the latest: a read of standard input
		// cannot be broken off.
		go func() {
			defer crash.Guard()
			defer close(ended)
			_, _ = io.Copy(io.Discard, s.in)
		}()
	}
	select {
	case <-s.interrupts:
	case <-ended:
	case <-ctx.Done():
	}
}

// embeddedCommand is this very program as the reference target.
func embeddedCommand(args []string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program to start it as the target: %w", err)
	}
	return append([]string{self, "serve"}, args...), nil
}

// startEmbedded runs this very program as the reference target.
func startEmbedded(ctx context.Context, args []string) (*bench.Child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program to start it as the target: %w", err)
	}
	return bench.StartChild(ctx, self, append([]string{
		"serve", "--ready-json", "--until-eof", "--addr", "127.0.0.1:0", "--admin", "127.0.0.1:0",
	}, args...)...)
}
