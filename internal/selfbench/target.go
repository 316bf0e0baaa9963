package selfbench

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/internal/selfbench/baseline"
)

// frameSize is the length of an event's frame in bytes, approximately.
const frameSize = 371

// listen opens a port of the loopback interface.
func listen() (net.Listener, string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	return ln, "http://" + ln.Addr().String(), nil
}

// serveBaseline is the role of the baseline server.
func serveBaseline(ctx context.Context, s spec, l *link) error {
	one, at1, err := listen()
	if err != nil {
		return err
	}
	two, at2, err := listen()
	if err != nil {
		return err
	}
	f := baseline.New(baseline.Options{Size: frameSize, Heartbeat: heartbeat, Batch: s.Batch})
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	errs := make([]error, 2)
	work.Go(func() { f.Run(ctx) })
	work.Go(func() { errs[0] = f.ServeHTTP1(ctx, one) })
	work.Go(func() { errs[1] = f.ServeHTTP2(ctx, two) })
	err = l.pause(ctx, message{Step: "ready", Serves: &addresses{HTTP1: at1 + "/mcp", HTTP2: at2 + "/mcp", Inject: at1 + "/inject"}})
	stats := f.Stats()
	cancel()
	work.Wait()
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	return l.send(message{Step: "done", Served: &served{Skipped: stats.Skipped}})
}

// serveReference is the role of the reference server.
func serveReference(ctx context.Context, s spec, l *link) error {
	o := refserver.Options{
		AllowPrivateCallbacks: true,
		CallbackInsecure:      true,
		MaxSubscriptions:      max(2*s.Streams, 100),
		NextPoll:              s.PollEvery,
		Heartbeat:             heartbeat,
	}
	if s.TTL > 0 {
		o.TTLMin, o.TTLDefault = s.TTL, s.TTL
	}
	server, err := refserver.New(o)
	if err != nil {
		return err
	}
	if err := server.Start(ctx); err != nil {
		return err
	}
	paused := l.pause(
		ctx,
		message{Step: "ready", Serves: &addresses{HTTP1: server.URL(), HTTP2: server.URL(), Inject: server.AdminURL() + "/inject"}},
	)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := server.Close(closing); err != nil && paused == nil && closing.Err() == nil {
		return err
	}
	if paused != nil {
		return paused
	}
	return l.send(message{Step: "done", Served: &served{}})
}

// injected is a posted event.
type injected struct {
	Name string          `json:"name"`
	Data json.RawMessage `json:"data"`
}

func readInjected(r *http.Request) (injected, error) {
	var in injected
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<10))
	if err == nil {
		err = json.Unmarshal(body, &in)
	}
	return in, err
}

// serveHandler serves a handler until the parent releases the child, and reports.
func serveHandler(ctx context.Context, l *link, h http.Handler, report func() *served) error {
	ln, at, err := listen()
	if err != nil {
		return err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = server.Serve(ln) // until it is closed
	}()
	err = l.pause(ctx, message{Step: "ready", Serves: &addresses{HTTP1: at + "/mcp", Inject: at + "/inject"}})
	s := report()
	_ = server.Close() // every event was answered
	<-over
	if err != nil {
		return err
	}
	return l.send(message{Step: "done", Served: s})
}

// serveSDK is the role of a server of the official Go SDK. Only the SDK's client
// uses it.
func serveSDK(ctx context.Context, _ spec, l *link) error {
	quiet := slog.New(slog.DiscardHandler)
	server := mcp.NewServer(&mcp.Implementation{Name: "eventbench", Version: "0.1"}, &mcp.ServerOptions{
		Logger:             quiet,
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	server.AddResource(
		&mcp.Resource{Name: "tick", URI: sdkResource},
		func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{}, nil
		},
	)
	mux := http.NewServeMux()
	mux.Handle(
		"/mcp",
		mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Logger: quiet}),
	)
	mux.HandleFunc("POST /inject", func(w http.ResponseWriter, r *http.Request) {
		in, err := readInjected(r)
		var data struct {
			Note string `json:"note"`
		}
		if err == nil {
			err = json.Unmarshal(in.Data, &data)
		}
		if err == nil {
			// The frame is as long as one of the baseline server.
			const rest = 160
			err = server.ResourceUpdated(r.Context(), &mcp.ResourceUpdatedNotificationParams{
				URI: sdkResource, Meta: mcp.Meta{"note": data.Note, "pad": strings.Repeat("x", frameSize-rest-len(data.Note))},
			})
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	})
	return serveHandler(ctx, l, mux, func() *served { return &served{} })
}
