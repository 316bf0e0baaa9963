//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen"
	"github.com/eventmeter/eventmeter/tools/sdkserver"
)

const (
	// sdkRevision has sessions: the SDK's client receives notifications on the stream of a session.
	sdkRevision = "2025-11-25"
	// sdkResource is the resource that sessions subscribe to.
	sdkResource = "event://tick"
)

// sessions is the official Go SDK's client with a session for each stream and default settings. It
// receives resource updates whose _meta carries the content of an event.
type sessions struct {
	base
	client *mcp.Client
	http   *http.Client

	mu   sync.Mutex
	made []*mcp.ClientSession
}

func newSessions(s spec, _ *eventmeter.Clock) (client, error) {
	c := &sessions{base: base{spec: s}}
	// By default net/http keeps two idle connections to a host, and nearly every call would open a new one.
	c.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1 << 16}}
	c.client = mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "0.1"}, &mcp.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, req *mcp.ResourceUpdatedNotificationRequest) {
			if _, probed := req.Params.Meta["note"]; probed {
				c.seen.Add(1)
			}
		},
	})
	return c, nil
}

func (c *sessions) open(ctx context.Context) error {
	_, err := loadgen.Attach(ctx, loadgen.AttachOptions{N: c.spec.Streams, Concurrency: 32}, func(ctx context.Context, i int) error {
		// The session ends with the context of Connect.
		s, err := c.client.Connect(context.WithoutCancel(ctx), &mcp.StreamableClientTransport{Endpoint: c.spec.URL, HTTPClient: c.http},
			&mcp.ClientSessionOptions{ProtocolVersion: sdkRevision})
		if err != nil {
			return fmt.Errorf("session %d: %w", i, err)
		}
		c.mu.Lock()
		c.made = append(c.made, s)
		c.mu.Unlock()
		return s.Subscribe(ctx, &mcp.SubscribeParams{URI: sdkResource})
	})
	return err
}

func (c *sessions) close(ctx context.Context) error {
	_, err := loadgen.Attach(ctx, loadgen.AttachOptions{N: len(c.made), Concurrency: 32, Continue: true},
		func(_ context.Context, i int) error { return c.made[i].Close() })
	c.http.CloseIdleConnections()
	return err
}

// serveSDK is the role of the official Go SDK's server, which only the SDK's client uses. An event is
// posted as to the other targets, and its message is as long as the baseline server's.
func serveSDK(ctx context.Context, _ spec, send func(reply) error) error {
	server := sdkserver.New("bench")
	server.AddResource(&mcp.Resource{Name: "tick", URI: sdkResource},
		func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{}, nil
		})
	mux := http.NewServeMux()
	mux.HandleFunc("POST /inject", func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Data struct{ Note string } }
		err := json.NewDecoder(r.Body).Decode(&in)
		if err == nil {
			const rest = 160
			err = server.ResourceUpdated(r.Context(), &mcp.ResourceUpdatedNotificationParams{
				URI: sdkResource, Meta: mcp.Meta{"note": in.Data.Note, "pad": strings.Repeat("x", frameSize-rest-len(in.Data.Note))},
			})
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	})
	err := sdkserver.Serve(ctx, server, mux, false, func(base string) error {
		return send(reply{Target: &addresses{HTTP1: base + "/mcp", Admin: base}})
	})
	if err != nil {
		return err
	}
	return send(reply{Outcome: &outcome{}})
}
