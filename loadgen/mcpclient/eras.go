package mcpclient

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter/internal/errtext"
)

// Eras holds the known eras of targets, so that a target of an earlier era is asked for
// the later one once and not in every handshake. Endpoints may share an Eras. The zero
// value is ready. It is safe for concurrent use.
type Eras struct {
	mu sync.Mutex
	of map[string]*eraOf // by address
}

// eraOf is what is known of one target.
type eraOf struct {
	url  string
	turn chan struct{} // of capacity 1: full while a handshake finds out the era

	mu       sync.Mutex
	era      Era // "" = not known yet
	fallback string
}

// at returns what is known of the target at a URL. One URL may lead to several
// targets, which differ in the Host header.
func (e *Eras) at(url, host string) *eraOf {
	address := url + " " + host
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.of == nil {
		e.of = map[string]*eraOf{}
	}
	if e.of[address] == nil {
		e.of[address] = &eraOf{url: url, turn: make(chan struct{}, 1)}
	}
	return e.of[address]
}

func (o *eraOf) known() (Era, string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.era, o.fallback
}

func (o *eraOf) set(era Era, fallback string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.era, o.fallback = era, fallback
}

// handshake makes a handshake in the known era. If none is known, it tries the latest
// one first; then one goroutine does so while the others wait.
func (o *eraOf) handshake(ctx context.Context, make func(Era) (*Session, error)) (*Session, error) {
	era, fallback := o.known()
	if era == "" {
		select {
		case o.turn <- struct{}{}:
			defer func() { <-o.turn }()
		case <-ctx.Done():
			return nil, fmt.Errorf("handshake with %s: waited for another handshake: %w: %w", o.url, ErrUnreachable, ctx.Err())
		}
		era, fallback = o.known()
	}
	switch era {
	case Legacy, Bare:
		a, err := make(era)
		if err != nil {
			o.set("", "") // the server may have been replaced: find out again
			return nil, err
		}
		a.fallback = fallback
		return a, nil
	}
	a, err := make(Auto)
	if err == nil {
		o.set(a.Era, a.fallback)
	}
	return a, err
}

// pin sets the era of the version, if there is one.
func (o *EndpointOptions) pin() error {
	if o.Version == "" {
		return nil
	}
	if _, err := time.Parse(time.DateOnly, o.Version); err != nil {
		return fmt.Errorf("endpoint: version %q is not a protocol version: use the form YYYY-MM-DD", o.Version)
	}
	era := Legacy
	if o.Version >= modernVersion {
		era = Modern
	}
	if o.Era != Auto && o.Era != era {
		return fmt.Errorf("endpoint: version %s is of era %s, and era is %s: leave era out", o.Version, era, o.Era)
	}
	o.Era = era
	return nil
}

// unspoken returns the error for a target that does not speak the version that was
// asked for. supported are the versions that it named.
func (e *Endpoint) unspoken(supported []errtext.Said) error {
	return fmt.Errorf("handshake with %s: %w: the target does not speak version %s, but %s; ask for one of these, or leave the version out",
		e.opts.URL, ErrProtocol, e.opts.Version, errtext.Line(strings.Join(plain(supported), ", ")))
}
