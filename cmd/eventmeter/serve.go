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
	"reflect"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

// serveFlags are the flags of the serve command.
type serveFlags struct {
	options refserver.Options
	faults  string
	from    string // options: a document, its file, or fromInput
	verbose bool
}

// fromInput reads the options from standard input, for a program that starts
// this one: the addresses are then printed as JSON, and the end of standard
// input ends the server.
const fromInput = "-"

func newServeCommand(io streams) *cobra.Command {
	var f serveFlags
	o := &f.options
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the reference server alone",
		Long: `Serve runs the reference server: a real MCP server that delivers events by poll,
push and webhook. It prints its addresses and how to inject an event, and runs
until it is interrupted.

With --stdio it speaks MCP over standard input and output instead, with the
program that starts it, and runs until its input ends. A line of JSON on standard
error gives the address for injecting events.

All other options are members of a JSON document, which --options takes as text
or as the name of a file: see docs/server.md. With --options - the document is
read from standard input. Serve then prints its addresses as a line of JSON, and
runs until standard input ends.

By default it delivers webhooks only to public addresses with valid certificates.
For a load test on this machine, use --allow-private-callbacks and either
--callback-insecure or --callback-ca.`,
		Example: `  eventmeter serve --addr 127.0.0.1:8080 --admin 127.0.0.1:8081 --allow-private-callbacks --callback-insecure
  eventmeter serve --options '{"TTLMin": "10s", "Lists": {"Entries": 60, "TTL": "2s"}}'
  curl -H 'Content-Type: application/json' ` +
			`-d '{"name":"chat.message","data":{"channel":"channel-0","text":"hello"}}' http://127.0.0.1:8081/inject
  eventmeter run --command 'eventmeter serve --stdio'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.load(c, io); err != nil {
				return err
			}
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
	ready := embedded.Ready{URL: s.URL(), TLSURL: s.TLSURL(), Admin: s.AdminURL(), Cert: string(s.CertPEM()), PID: os.Getpid()}
	if f.from == fromInput {
		err = json.NewEncoder(io.out).Encode(ready)
	} else {
		err = announce(io.out, ready)
	}
	if err == nil {
		waitForEnd(ctx, f.from == fromInput, io)
	}
	if closeErr := s.Close(context.WithoutCancel(ctx)); err == nil {
		err = closeErr
	}
	return err
}

// cannotListen adds to a listen error how to fix it. A malformed address is a usage
// error.
func cannotListen(err error) error {
	var address *net.AddrError
	switch {
	case errors.As(err, &address):
		return usagef("%w; write an address like 127.0.0.1:8080", err)
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w; choose another with --addr, --admin or --tls-addr", err)
	}
	return err
}

func announce(w io.Writer, r embedded.Ready) error {
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

// waitForEnd returns on an interrupt and, if untilEOF is set, at the end of standard
// input.
func waitForEnd(ctx context.Context, untilEOF bool, s streams) {
	ended := make(chan struct{})
	if untilEOF {
		// A read of standard input cannot be interrupted, so the goroutine may live
		// until the process ends.
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

// load reads the document of --options. Flags that are given take precedence over it.
func (f *serveFlags) load(c *cobra.Command, io streams) error {
	if f.from == "" {
		return nil
	}
	if f.from == fromInput && f.options.Stdio {
		return usagef("--options - and --stdio both need standard input; give the options in a file")
	}
	given := f.options
	// Decoding writes into the same fields and arrays, so keep copies of the flags.
	given.Tokens, given.AllowHosts = slices.Clone(given.Tokens), slices.Clone(given.AllowHosts)
	in := io.in
	switch {
	case f.from == fromInput:
		f.options = refserver.Options{} // any free port
	case strings.HasPrefix(f.from, "{"):
		in = strings.NewReader(f.from)
	default:
		file, err := os.Open(f.from)
		if err != nil {
			return usagef("--options: %w", err)
		}
		defer file.Close()
		in = file
	}
	if err := embedded.ReadOptions(in, &f.options); err != nil {
		return usagef("--options: %w", err)
	}
	from, to := reflect.ValueOf(given), reflect.ValueOf(&f.options).Elem()
	for _, option := range serveOptions {
		if c.Flags().Changed(option.flag) {
			to.FieldByName(option.field).Set(from.FieldByName(option.field))
		}
	}
	return nil
}

// thisProgram returns the path of this program, which is started as something else.
func thisProgram(as string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program to start it as %s: %w", as, err)
	}
	return self, nil
}

// embeddedCommand returns the command that runs this program as the reference server
// over standard input and output.
func embeddedCommand(optionsFile string) ([]string, error) {
	self, err := thisProgram("the target")
	if err != nil {
		return nil, err
	}
	return []string{self, "serve", "--stdio", "--options", optionsFile}, nil
}

// startEmbedded runs this program as the reference server.
func startEmbedded(ctx context.Context, o embedded.Options) (embedded.Server, error) {
	self, err := thisProgram("the target")
	if err != nil {
		return nil, err
	}
	return embedded.Start(ctx, o, self, "serve", "--options", fromInput)
}

// serveOptions are the flags that set a field of refserver.Options.
var serveOptions = []struct{ flag, field, usage string }{
	{"addr", "Addr", "address of the MCP endpoint (HTTP/1.1 and h2c)"},
	{"admin", "AdminAddr", "address of /inject, /stats and /healthz, without authentication"},
	{"tls", "TLS", "serve the MCP endpoint over TLS too (HTTP/1.1 and HTTP/2, self-signed certificate)"},
	{"tls-addr", "TLSAddr", "address of the endpoint over TLS"},
	{"stdio", "Stdio", "speak MCP over standard input and output instead of HTTP, until standard input ends"},
	{"token", "Tokens", "accepted bearer token, one principal each (repeatable; default: any)"},
	{
		"revision", "Revision",
		"revision of MCP Events to speak: sep-3415 (default), sketch, longpoll (the sketch, and polls that wait) or older",
	},
	{"capacity", "Capacity", "event deliveries per second, in all modes together; further ones wait in the queues (default: no limit)"},
	{"feed", "Feed", "address of a change feed to poll and publish (default: none)"},
	{"allow-host", "AllowHosts", "poll a feed at this host, which is not this machine (repeatable)"},
	{"proxies-may-buffer", "ProxiesMayBuffer", "omit the header X-Accel-Buffering: no from event streams"},
	{"sse-answers", "SSEAnswers", "answer every call with an event stream of one message instead of JSON"},
	{"allow-private-callbacks", "AllowPrivateCallbacks", "deliver webhooks to loopback and private addresses"},
	{"callback-ca", "CallbackCAFile", "PEM file of certificates that callbacks must match"},
	{"callback-insecure", "CallbackInsecure", "accept any certificate of a callback"},
}

// add adds the flags of the serve command.
func (f *serveFlags) add(c *cobra.Command) {
	o := &f.options
	o.Addr, o.AdminAddr, o.TLSAddr = "127.0.0.1:8080", "127.0.0.1:8081", "127.0.0.1:0"
	flags := []flagSpec{
		{
			&f.faults, "faults",
			"faults to commit on purpose: a file, or text such as 'drop(every=10); delay(rate=1, fixed=50ms)' (see docs/faults.md)",
		},
		{&f.from, "options", "further options: a JSON document, or a file of one; - = standard input, for programs that start this one"},
		{&f.verbose, "verbose,v", "log errors to standard error"},
	}
	for _, option := range serveOptions {
		flags = append(flags, flagSpec{reflect.ValueOf(o).Elem().FieldByName(option.field).Addr().Interface(), option.flag, option.usage})
	}
	addFlags(c, flags)
}

// serveStdio serves the program that started this one, until standard input
// ends or an interrupt comes. Standard output is the protocol's, so everything
// else goes to standard error.
func serveStdio(ctx context.Context, s *refserver.Server, io streams) error {
	err := json.NewEncoder(io.err).Encode(embedded.Ready{Admin: s.AdminURL(), PID: os.Getpid()})
	ended := make(chan error, 1)
	if err == nil {
		go func() {
			defer crash.Guard()
			ended <- s.ServeStdio(ctx, io.in, io.out)
		}()
		select {
		case err = <-ended:
		case <-io.interrupts:
		case <-ctx.Done():
		}
	}
	// Close also ends requests that are still being served.
	return errors.Join(err, s.Close(context.WithoutCancel(ctx)))
}
