package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/eventmeter/eventmeter/internal/metrics"
	"github.com/eventmeter/eventmeter/internal/report"
	"github.com/eventmeter/eventmeter/internal/run"
)

// metricsFlags are the flags of commands that show live metrics.
type metricsFlags struct {
	addr        string
	linger      time.Duration
	pprof       bool
	remoteWrite string
	remoteEvery time.Duration
	otlp        string
	otlpEvery   time.Duration
}

func (m *metricsFlags) add(c *cobra.Command) {
	m.linger, m.remoteEvery, m.otlpEvery = 15*time.Second, 5*time.Second, 10*time.Second
	addFlags(c, []flagSpec{
		{&m.addr, "metrics", "serve live metrics for Prometheus at this address, such as :9464; without a host, only to this machine"},
		{&m.linger, "metrics-linger", "with --metrics: at the end, wait at most this long for one more scrape"},
		{&m.pprof, "pprof", "with --metrics: serve profiles of this process at /debug/pprof/ of the same address, for go tool pprof"},
		{&m.remoteWrite, "remote-write", "push metrics to this URL by Prometheus remote write, and once more at the end"},
		{&m.remoteEvery, "remote-write-every", "with --remote-write: time between pushes, 1s or more"},
		{&m.otlp, "otlp", "push metrics to this URL by OTLP over HTTP, such as http://127.0.0.1:4318, and once more at the end"},
		{&m.otlpEvery, "otlp-every", "with --otlp: time between pushes, 1s or more"},
	})
}

// wanted reports whether any flag asks for metrics.
func (m *metricsFlags) wanted() bool { return m.addr != "" || m.remoteWrite != "" || m.otlp != "" }

// check reads the flags and refuses invalid ones.
func (m *metricsFlags) check() error {
	if m.linger < 0 {
		return usagef("--metrics-linger %v: want 0 or more", m.linger)
	}
	for _, every := range []struct {
		flag string
		d    time.Duration
	}{{"remote-write-every", m.remoteEvery}, {"otlp-every", m.otlpEvery}} {
		if every.d < time.Second {
			return usagef("--%s %v: want 1s or more", every.flag, every.d)
		}
	}
	if m.remoteWrite != "" {
		if u, err := url.Parse(m.remoteWrite); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return usagef("--remote-write %q: want a URL such as http://127.0.0.1:9090/api/v1/write", m.remoteWrite)
		}
	}
	if m.otlp != "" {
		whole, err := metrics.OTLPEndpoint(m.otlp)
		if err != nil {
			return usagef("--otlp %w", err)
		}
		m.otlp = whole
	}
	return nil
}

// shownMetrics are the metrics of one command. Its methods do nothing on nil.
type shownMetrics struct {
	flags   metricsFlags
	io      streams
	shown   *metrics.Collector
	server  *metrics.Server
	pushers []*metrics.Pusher
}

// open starts to export metrics. It returns nil if no flag asks for them. keep is the
// largest number of runs to show, 0 for all.
func (m *metricsFlags) open(io streams, keep int) (*shownMetrics, error) {
	if !m.wanted() {
		return nil, nil
	}
	registry := prometheus.NewPedanticRegistry()
	s := &shownMetrics{flags: *m, io: io}
	var err error
	if s.shown, err = metrics.New(registry, metrics.Options{Keep: keep, Figures: run.FigureTables}); err != nil {
		return nil, err
	}
	if m.addr != "" {
		if s.server, err = metrics.Serve(m.addr, registry, metrics.ServerOptions{Profiles: m.pprof}); err != nil {
			return nil, usageError{err}
		}
		fmt.Fprintf(io.err, "metrics at %s\n", s.server.URL())
	}
	if m.otlp != "" {
		p, err := metrics.StartOTLP(metrics.PushOptions{URL: m.otlp, Every: m.otlpEvery, From: registry, Job: "eventmeter"})
		if err != nil {
			if s.server != nil {
				err = errors.Join(err, s.server.Close())
			}
			return nil, usageError{err}
		}
		s.pushers = append(s.pushers, p)
	}
	if m.remoteWrite != "" {
		s.pushers = append(
			s.pushers,
			metrics.StartRemoteWrite(metrics.PushOptions{URL: m.remoteWrite, Every: m.remoteEvery, From: registry, Job: "eventmeter"}),
		)
	}
	return s, nil
}

func (s *shownMetrics) collector() *metrics.Collector {
	if s == nil {
		return nil
	}
	return s.shown
}

// close pushes the last figures, and waits for one more scrape unless the command was
// interrupted. A failure to export them does not change the exit code.
func (s *shownMetrics) close(ctx context.Context, stop <-chan struct{}) {
	if s == nil {
		return
	}
	for _, p := range s.pushers {
		if err := p.Close(); err != nil {
			fmt.Fprintf(s.io.err, "warning: %s\n", report.Clean(err.Error()))
		}
	}
	if s.server == nil {
		return
	}
	if s.flags.linger > 0 {
		fmt.Fprintf(s.io.err, "waiting up to %v for one more scrape; Ctrl-C ends the wait\n", s.flags.linger)
	}
	ctx, release := until(ctx, stop)
	s.server.Linger(ctx, s.flags.linger)
	release()
	_ = s.server.Close() // the command ends anyway
}
