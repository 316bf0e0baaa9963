package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/wire"
)

// ServerOptions describes a Server.
type ServerOptions struct {
	// Profiles serves the process's CPU, heap and goroutine profiles at
	// /debug/pprof/, as net/http/pprof does.
	Profiles bool
}

// Server answers scrapes at /metrics, in text and in protobuf, which native
// histograms take. It must be closed.
type Server struct {
	listener net.Listener
	http     *http.Server
	served   sync.WaitGroup

	mu      sync.Mutex
	last    bool          // scrapes that begin now see the last figures
	scraped chan struct{} // closed when one of them was answered
	once    sync.Once
}

// Serve listens at addr, host:port. Without a host it listens on loopback alone,
// because metrics name what is tested.
func Serve(addr string, from prometheus.Gatherer, opts ServerOptions) (*Server, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("metrics address %q: %w; want :9464 or host:port", addr, err)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	l, err := wire.Listen(context.Background(), net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("listen for scrapes of metrics: %w; choose another port", err)
	}
	s := &Server{listener: l, scraped: make(chan struct{})}
	answer := promhttp.HandlerFor(from, promhttp.HandlerOpts{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		last := s.last
		s.mu.Unlock()
		answer.ServeHTTP(w, r)
		if last && r.Context().Err() == nil { // else the client gave up
			s.once.Do(func() { close(s.scraped) })
		}
	})
	if opts.Profiles {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index) // it serves every profile by its name
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	s.served.Go(func() {
		defer crash.Guard()
		_ = s.http.Serve(l)
	}) // it ends with Close
	return s, nil
}

// URL is where the metrics are.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() + "/metrics" }

// Linger waits until a scrape that began after this call was answered, ctx is done,
// or d is over: a run may be shorter than the time between two scrapes. It reports
// whether there was such a scrape.
func (s *Server) Linger(ctx context.Context, d time.Duration) bool {
	s.mu.Lock()
	s.last = true
	s.mu.Unlock()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-s.scraped:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	return false
}

// Close ends the server, waiting a moment for scrapes that are being answered.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	s.served.Wait()
	if err != nil {
		return fmt.Errorf("close the metrics: %w", err)
	}
	return nil
}
