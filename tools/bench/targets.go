//go:build linux

package main

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/tools/bench/baseline"
)

const (
	// frameSize is the length of an event's frame in bytes, approximately.
	frameSize = 371
	// heartbeat is longer than any measurement, so that the reference server sends only events.
	heartbeat = 30 * time.Minute
)

// listen opens a port of the loopback interface.
func listen() (net.Listener, string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	return ln, "http://" + ln.Addr().String(), nil
}

// serveBaseline is the role of the baseline server.
func serveBaseline(ctx context.Context, s spec, send func(reply) error) error {
	one, at1, err := listen()
	if err != nil {
		return err
	}
	two, at2, err := listen()
	if err != nil {
		return err
	}
	f := baseline.New(baseline.Options{Size: frameSize, Batch: s.Batch})
	var work sync.WaitGroup
	var errs [2]error
	work.Go(func() { errs[0] = f.ServeHTTP1(ctx, one) })
	work.Go(func() { errs[1] = f.ServeHTTP2(ctx, two) })
	err = send(reply{Target: &addresses{HTTP1: at1 + "/mcp", HTTP2: at2 + "/mcp", Admin: at1}})
	work.Wait()
	if err := errors.Join(errs[0], errs[1], err); err != nil {
		return err
	}
	return send(reply{Outcome: &outcome{Lost: f.Stats().Skipped}})
}

// serveReference is the role of the reference server.
func serveReference(ctx context.Context, s spec, send func(reply) error) error {
	o := refserver.Options{
		MaxSubscriptions: max(2*s.Streams, 100),
		NextPoll:         s.PollEvery,
		Heartbeat:        heartbeat,
		// The clients' listeners have certificates of their own, and answer no challenge.
		AllowPrivateCallbacks: true, CallbackInsecure: true,
		Proof: refserver.ProofAllowList, CallbackHosts: []string{"127.0.0.1"},
	}
	if s.TTL > 0 {
		o.TTLMin, o.TTLDefault = s.TTL, s.TTL
	}
	server, err := refserver.New(o)
	if err != nil {
		return err
	}
	if err := server.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	err = send(reply{Target: &addresses{HTTP1: server.URL(), HTTP2: server.URL(), Admin: server.AdminURL()}})
	<-ctx.Done()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = server.Close(closing) // clients that are still connected do not matter
	return errors.Join(err, send(reply{Outcome: &outcome{}}))
}
