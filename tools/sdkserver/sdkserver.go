// Package sdkserver serves MCP with the official Go SDK, for measurements beside eventmeter.
package sdkserver

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

var quiet = slog.New(slog.DiscardHandler)

// New returns a server whose resources can be subscribed to.
func New(name string) *mcp.Server {
	return mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, &mcp.ServerOptions{
		Logger:             quiet,
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
}

// Serve serves s at /mcp, beside what mux has, on a port of the loopback interface until ctx ends. It first calls
// began with the address of the port.
func Serve(ctx context.Context, s *mcp.Server, mux *http.ServeMux, stateless bool, began func(base string) error) error {
	mux.Handle("/mcp", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s },
		&mcp.StreamableHTTPOptions{Logger: quiet, Stateless: stateless}))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := began("http://" + ln.Addr().String()); err != nil {
		return errors.Join(err, ln.Close())
	}
	h := &http.Server{Handler: mux, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	defer context.AfterFunc(ctx, func() { h.Close() })()
	if err := h.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
