package sinks

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// SharedListener is a webhook listener for several lanes, each below a path of its
// own. It is safe for concurrent use.
type SharedListener struct {
	own *Listener

	mu     sync.RWMutex
	guests map[string]*guest // by the first two elements of the path
}

// guest is a lane at a SharedListener.
type guest struct {
	at      *SharedListener
	prefix  string
	handler http.Handler
	failed  func(reason string)
	serving sync.RWMutex // held for reading while a request is answered
}

// ListenShared opens a listener without lanes. It ignores opts.Handler, Shared and
// Prefix.
func ListenShared(opts ListenerOptions) (*SharedListener, error) {
	s := &SharedListener{guests: make(map[string]*guest)}
	opts.Handler, opts.Shared, opts.Failed = s, nil, s.failed
	var err error
	if s.own, err = Listen(opts); err != nil {
		return nil, err
	}
	return s, nil
}

// URL returns the address of path as targets must call it.
func (s *SharedListener) URL(path string) string { return s.own.URL(path) }

// CertPEM returns the certificate that a target must trust.
func (s *SharedListener) CertPEM() []byte { return s.own.CertPEM() }

// Close closes the listener; see [Listener.Close]. Close all lanes first.
func (s *SharedListener) Close(ctx context.Context) error { return s.own.Close(ctx) }

// join adds a lane. Its prefix has two elements, such as "/mcp/7", so that the first
// one can name all lanes together.
func (s *SharedListener) join(opts ListenerOptions) (*Listener, error) {
	prefix := opts.Prefix
	if key, rest := firstTwo(prefix); key == "" || rest != "" {
		return nil, fmt.Errorf("webhook listener: prefix %q: use two elements, /mcp/7", prefix)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.guests[prefix] != nil {
		return nil, fmt.Errorf("webhook listener: prefix %q is taken", prefix)
	}
	g := &guest{at: s, prefix: prefix, handler: opts.Handler, failed: opts.Failed}
	s.guests[prefix] = g
	return &Listener{authority: s.own.authority, base: s.own.base, guest: g}, nil
}

// leave removes a lane, and waits until its requests are answered.
func (g *guest) leave() {
	g.at.mu.Lock()
	delete(g.at.guests, g.prefix)
	g.at.mu.Unlock()
	g.serving.Lock()
	//lint:ignore SA2001 only waits
	g.serving.Unlock()
}

// ServeHTTP passes a request to its lane. A path below no lane's prefix, such as that
// of the document about the origin, goes to any of them.
func (s *SharedListener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key, _ := firstTwo(r.URL.Path)
	s.mu.RLock()
	g := s.guests[key]
	if g == nil && r.Method == http.MethodGet {
		for _, g = range s.guests {
			break
		}
	}
	if g != nil {
		g.serving.RLock()
		defer g.serving.RUnlock()
	}
	s.mu.RUnlock()
	if g == nil {
		http.NotFound(w, r)
		return
	}
	g.handler.ServeHTTP(w, r)
}

// failed reports a failed connection to a single lane: it is not known which lane it
// was for, and each failure must be counted once.
func (s *SharedListener) failed(reason string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, g := range s.guests { // in random order
		if g.failed != nil {
			g.failed(reason)
			return
		}
	}
}

// firstTwo cuts a path after its second element.
func firstTwo(path string) (key, rest string) {
	if !strings.HasPrefix(path, "/") {
		return "", path
	}
	first := strings.IndexByte(path[1:], '/')
	if first < 0 {
		return "", path
	}
	from := first + 2
	if second := strings.IndexByte(path[from:], '/'); second >= 0 {
		return path[:from+second], path[from+second:]
	}
	return path, ""
}
