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

	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/embedded"
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
push and webhook. It prints its addresses and how to inject an event, and runs
until it is interrupted.

With --stdio it speaks MCP over standard input and output instead, with the
program that starts it, and runs until its input ends. A line of JSON on standard
error gives the address for injecting events.

By default it delivers webhooks only to public addresses with valid certificates.
For a load test on this machine, use --allow-private-callbacks and either
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
	ready := embedded.Ready{URL: s.URL(), TLSURL: s.TLSURL(), Admin: s.AdminURL(), Cert: string(s.CertPEM()), PID: os.Getpid()}
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
func startEmbedded(ctx context.Context, args []string) (embedded.Server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program to start it as the target: %w", err)
	}
	return embedded.Start(ctx, self, append([]string{
		"serve", "--ready-json", "--until-eof", "--addr", "127.0.0.1:0", "--admin", "127.0.0.1:0",
	}, args...)...)
}

// add adds the flags of the serve command.
func (f *serveFlags) add(c *cobra.Command) {
	f.addListeners(c)
	f.addEvents(c)
	f.addWebhooks(c)
	fl := c.Flags()
	fl.BoolVar(&f.ready, "ready-json", false, "print one line of JSON with the URLs instead of text")
	fl.BoolVar(&f.untilEOF, "until-eof", false, "stop when standard input ends, for programs that start it")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "log errors to standard error")
}

// addListeners adds where the target serves, whom, and where its events come from.
func (f *serveFlags) addListeners(c *cobra.Command) {
	o, fl := &f.options, c.Flags()
	fl.StringVar(&o.Addr, "addr", "127.0.0.1:8080", "address of the MCP endpoint (HTTP/1.1 and h2c)")
	fl.BoolVar(&o.Stdio, "stdio", false, "speak MCP over standard input and output instead of HTTP, until standard input ends")
	fl.BoolVar(&o.TLS, "tls", false, "serve the MCP endpoint over TLS too (HTTP/1.1 and HTTP/2, self-signed certificate)")
	fl.StringVar(&o.TLSAddr, "tls-addr", "127.0.0.1:0", "address of the endpoint over TLS")
	fl.StringVar(&o.AdminAddr, "admin", "127.0.0.1:8081", "address of /inject, /stats and /healthz, without authentication")
	fl.StringArrayVar(&o.Tokens, "token", nil, "accepted bearer token, one principal each (repeatable; default: any)")
	fl.BoolVar(&o.ProxiesMayBuffer, "proxies-may-buffer", false, "omit the header X-Accel-Buffering: no from event streams")
	fl.BoolVar(&o.SSEAnswers, "sse-answers", false, "answer every call with an event stream of one message instead of JSON")
	fl.StringVar(&o.Feed, "feed", "", "address of a change feed to poll and publish (default: none)")
	fl.DurationVar(&o.FeedEvery, "feed-every", 0, "pause between two polls of the feed (default 500ms)")
	fl.StringArrayVar(&o.AllowHosts, "allow-host", nil, "poll a feed at this host, which is not this machine (repeatable)")
}

// addEvents adds how events are kept and delivered, in all modes and systems.
func (f *serveFlags) addEvents(c *cobra.Command) {
	o, fl := &f.options, c.Flags()
	fl.StringVar(&o.Revision, "revision", "", "revision of MCP Events to speak: sep-3415 (default), sketch, longpoll (the sketch, and polls that wait) or older")
	fl.StringVar(&o.WebhookID, "webhook-id", "", "what the webhook-id of an event names: event (default) or message")
	fl.IntVar(&o.TypesPage, "types-page", 0, "event types on one page of events/list (default: all)")
	fl.DurationVar(&o.Heartbeat, "heartbeat", 0, "longest silence on a stream (default 15s)")
	fl.DurationVar(&o.NextPoll, "next-poll", 0, "pause asked of pollers (default 1s)")
	fl.IntVar(&o.BufferEvents, "buffer", 0, "events kept for replay, per event type (default 10000)")
	fl.IntVar(&o.QueueLen, "queue", 0, "events that a subscriber may lag behind (default 4096)")
	fl.Float64Var(&o.Capacity, "capacity", 0, "event deliveries per second, in all modes together; further ones wait in the queues (default: no limit)")
	fl.IntVar(&o.CapacityBurst, "capacity-burst", 0, "deliveries that may be sent at once after a pause (default: those of 50ms)")
	fl.IntVar(&o.MaxSubscriptions, "max-subscriptions", 0, "most streams and webhook subscriptions together (default 100000)")
	fl.StringVar(&f.faults, "faults", "", "faults to commit on purpose: a file, or text such as 'drop(every=10); delay(rate=1, fixed=50ms)' (see docs/faults.md)")
	fl.DurationVar(&o.TypesEvery, "types-every", 0, "add and remove the event type seasonal at this interval (default: never)")
	fl.DurationVar(&o.ResumeMaxWait, "resume-max-wait", 0, "longest maxWait of a resume policy (default 5m)")
	fl.DurationVar(&o.ResumeOverlap, "resume-overlap", 0, "on a resume, repeat messages written this long before the disconnect (default 1s, -1ns = none)")
	fl.IntVar(&o.Lists.Entries, "list-entries", 0, "entries of each list with a time to live (default: no lists)")
	fl.IntVar(&o.Lists.Page, "list-page", 0, "entries of one page of these lists (default 50)")
	fl.DurationVar(&o.Lists.TTL, "list-ttl", 0, "time to live of a page in clients' caches (default: not cached)")
	fl.BoolVar(&o.Lists.Private, "list-private", false, "mark lists as private to one principal")
	fl.BoolVar(&o.Lists.Older, "list-older", false, "send the time to live in the earlier draft's form: ttl, in seconds")
	fl.BoolVar(&o.Lists.Strict, "list-strict", false, "make cursors fail after a change of their list")
}

// addWebhooks adds what there is to webhooks alone.
func (f *serveFlags) addWebhooks(c *cobra.Command) {
	o, fl := &f.options, c.Flags()
	fl.BoolVar(&o.AllowPrivateCallbacks, "allow-private-callbacks", false, "deliver webhooks to loopback and private addresses")
	fl.StringVar(&o.CallbackCAFile, "callback-ca", "", "PEM file of certificates that callbacks must match")
	fl.BoolVar(&o.CallbackInsecure, "callback-insecure", false, "accept any certificate of a callback")
	fl.DurationVar(&o.TTLMin, "ttl-min", 0, "shortest lifetime granted to a webhook subscription (default 5m)")
	fl.DurationVar(&o.TTLDefault, "ttl-default", 0, "lifetime granted where none is requested (default 30m)")
	fl.DurationVar(&o.TTLMax, "ttl-max", 0, "longest lifetime granted (default 24h)")
	fl.IntVar(&o.RetryMax, "retries", 0, "retries of a webhook delivery (default 4, -1 = none)")
	fl.IntVar(&o.InFlight, "in-flight", 0, "concurrent deliveries of one webhook subscription (default 1, which keeps their order)")
	fl.DurationVar(&o.RetryBase, "retry-base", 0, "wait before the first retry, doubled for each further one (default 1s)")
	fl.DurationVar(&o.AckTimeout, "ack-timeout", 0, "how long a callback may take to answer (default 5s)")
	fl.DurationVar(&o.DualSignGrace, "dual-sign", 0, "how long a replaced secret still signs beside the new one (default 1m, -1ns = not at all)")
	fl.IntVar(&o.SuspendAfter, "suspend-after", 0, "attempts after which a webhook that nearly always fails is suspended (default 100, -1 = never)")
	fl.StringVar(&o.Proof, "proof", "", "how a callback proves that it accepts deliveries: challenge (default) or well-known")
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
	// It ends what is still served, too.
	return errors.Join(err, s.Close(context.WithoutCancel(ctx)))
}
