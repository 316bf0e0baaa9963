package mcpevents

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/sinks"
	"github.com/grafana/sobek"
)

// sinkOptions are the argument of WebhookSink.
type sinkOptions struct {
	Listen   string `json:"listen"`
	Callback string `json:"callback"`
	Cert     string `json:"cert"`
	Key      string `json:"key"`
}

// sink is the object WebhookSink: a listener that the VUs of a process share.
// Its exported methods are those of the script's object.
type sink struct {
	m    *instance
	hub  *hub
	opts sinkOptions
	cert *tls.Certificate
}

// sink makes a WebhookSink. The port is opened when it is first used,
// because every VU runs the init context at least once.
func (m *instance) sink(options sobek.Value) (*sink, error) {
	s := &sink{m: m, hub: m.hub}
	if err := decode(options, &s.opts); err != nil {
		return nil, err
	}
	if (s.opts.Cert == "") != (s.opts.Key == "") {
		return nil, errors.New("options: cert and key belong together")
	}
	if s.opts.Cert != "" {
		pair, err := tls.X509KeyPair([]byte(s.opts.Cert), []byte(s.opts.Key))
		if err != nil {
			return nil, fmt.Errorf("options: cert, key: %w: give both as PEM", err)
		}
		s.cert = &pair
	}
	return s, nil
}

// sharedSink is the listener of all sinks with the same options.
type sharedSink struct {
	*sinks.SharedListener
	passed *meter
}

// open returns the listener.
func (s *sink) open() (*sharedSink, error) {
	key, err := json.Marshal(s.opts)
	if err != nil {
		return nil, err
	}
	a, err := s.hub.authority()
	if err != nil {
		return nil, err
	}
	return sharedOf(&s.hub.life, "sink "+string(key), func() (*sharedSink, func(context.Context), error) {
		count := new(wire.Traffic)
		l, err := sinks.ListenShared(sinks.ListenerOptions{
			Listen: s.opts.Listen, Callback: s.opts.Callback, Authority: a, Certificate: s.cert, Wrap: count.Listener,
		})
		if err != nil {
			return nil, nil, err
		}
		passed := &meter{totals: totalsOf(count)}
		return &sharedSink{l, passed}, func(ctx context.Context) {
			_ = l.Close(ctx) // deliveries that are cut off at the end do not count
			passed.rest()
		}, nil
	})
}

// Url is the address that targets receive.
func (s *sink) Url() string { // the script's name is url
	l, err := s.open()
	if err != nil {
		s.m.throw(err)
	}
	return l.URL("")
}

// CertPEM is the authority that targets must trust.
func (s *sink) CertPEM() string {
	if s.cert != nil {
		return ""
	}
	l, err := s.open()
	if err != nil {
		s.m.throw(err)
	}
	return string(l.CertPEM())
}
