package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/mcpload/mcpload/internal/prom"
)

// metricsFlags are the flags of the run command about metrics.
type metricsFlags struct {
	addr        string
	linger      time.Duration
	remoteWrite string
	every       time.Duration
}

func (m *metricsFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&m.addr, "metrics", "", "serve live metrics for Prometheus at this address, such as :9464; only for this machine unless a host is given")
	fl.DurationVar(&m.linger, "metrics-linger", 15*time.Second, "with --metrics: after the run, wait this long at most for one more scrape")
	fl.StringVar(&m.remoteWrite, "remote-write", "", "push metrics to this URL by Prometheus remote write, and once more at the end")
	fl.DurationVar(&m.every, "remote-write-every", 5*time.Second, "with --remote-write: time between pushes, 1s or more")
}

func (m *metricsFlags) check(f runFlags) error {
	if m.addr == "" && m.remoteWrite == "" {
		return nil
	}
	if f.shards.processes > 1 {
		return usageError{errors.New("--metrics and --remote-write show one process: with several, use --shard and an address for each")}
	}
	if m.linger < 0 {
		return usageError{fmt.Errorf("--metrics-linger %v: want 0 or more", m.linger)}
	}
	if m.remoteWrite == "" {
		return nil
	}
	if u, err := url.Parse(m.remoteWrite); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return usageError{fmt.Errorf("--remote-write %q: want a URL such as http://127.0.0.1:9090/api/v1/write", m.remoteWrite)}
	}
	if m.every < time.Second {
		return usageError{fmt.Errorf("--remote-write-every %v: want 1s or more", m.every)}
	}
	return nil
}

// shownMetrics are the metrics of one run of the command. Its methods do nothing
// on nil.
type shownMetrics struct {
	flags  metricsFlags
	io     streams
	shown  *prom.Collector
	server *prom.Server
	writer *prom.RemoteWriter
}

// open begins to show metrics; it returns nil where nobody asked for them.
func (m *metricsFlags) open(io streams) (*shownMetrics, error) {
	if m.addr == "" && m.remoteWrite == "" {
		return nil, nil
	}
	registry := prometheus.NewPedanticRegistry()
	s := &shownMetrics{flags: *m, io: io}
	var err error
	if s.shown, err = prom.New(registry, prom.Options{}); err != nil {
		return nil, err
	}
	if m.addr != "" {
		if s.server, err = prom.Serve(m.addr, registry); err != nil {
			return nil, usageError{err}
		}
		fmt.Fprintf(io.err, "metrics at %s\n", s.server.URL())
	}
	if m.remoteWrite != "" {
		s.writer = prom.StartRemoteWrite(prom.RemoteWriteOptions{URL: m.remoteWrite, Every: m.every, From: registry, Job: "mcpload"})
	}
	return s, nil
}

func (s *shownMetrics) collector() *prom.Collector {
	if s == nil {
		return nil
	}
	return s.shown
}

// close shows the last figures: it pushes them, and waits for one more scrape
// unless the run was interrupted. What cannot be shown changes no verdict.
func (s *shownMetrics) close(ctx context.Context, stop <-chan struct{}) {
	if s == nil {
		return
	}
	if s.writer != nil {
		if err := s.writer.Close(); err != nil {
			fmt.Fprintf(s.io.err, "warning: %v\n", err)
		}
	}
	if s.server == nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		select {
		case <-stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	s.server.Linger(ctx, s.flags.linger)
	cancel()
	<-watching
	_ = s.server.Close() // nobody is left to be told
}
