package mcpclient

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter/internal/errtext"
)

// Eras remembers of which era targets turned out to be, so that one of an
// earlier era is asked for the later one once, and not at every handshake.
// Endpoints that share an Eras share what they learn. The zero value is ready;
// it is safe for concurrent use.
type Eras struct {
	mu sync.Mutex
	of map[string]*eraOf // by address
}

// eraOf is what is known of one target.
type eraOf struct {
	url  string
	turn chan struct{} // of capacity 1: held by the one who asks

	mu       sync.Mutex
	era      Era // "" = not known yet
	fallback string
}

// at is what is known of the target at a URL. Several may stand behind one,
// told apart by the host that is asked for.
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

// handshake makes a handshake: in the era that is known, or by asking for the
// latest one first, which only one does at a time.
func (o *eraOf) handshake(ctx context.Context, make func(Era) (*Session, error)) (*Session, error) {
	era, fallback := o.known()
	if era == "" {
		select {
		case o.turn <- struct{}{}:
			defer func() { <-o.turn }()
		case <-ctx.Done():
			return nil, fmt.Errorf("handshake with %s: another one was awaited: %w: %w", o.url, ErrUnreachable, ctx.Err())
		}
		era, fallback = o.known()
	}
	switch era {
	case Legacy, Bare:
		a, err := make(era)
		if err != nil {
			o.set("", "") // it may be another server by now: ask again
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

// pin has the version that is named decide the era.
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

// spoken returns an error unless the session is of the version that was asked for.
func (e *Endpoint) spoken(a *Session) error {
	if e.opts.Version == "" || a.Version == e.opts.Version {
		return nil
	}
	return e.unspoken(a.versions)
}

// unspoken says that the target has not the version that was asked for. supported
// are those that it named.
func (e *Endpoint) unspoken(supported []errtext.Said) error {
	return fmt.Errorf("handshake with %s: %w: the target does not speak version %s, but %s: ask for one of these, or for none",
		e.opts.URL, ErrProtocol, e.opts.Version, errtext.Line(strings.Join(plain(supported), ", ")))
}
