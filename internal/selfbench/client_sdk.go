package selfbench

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen"
)

// sdkRevision is a protocol revision with sessions: the SDK's client receives
// notifications on the stream of a session.
const sdkRevision = "2025-11-25"

// sdkResource is the resource that sessions subscribe to.
const sdkResource = "event://tick"

// sessions is the peer: the official Go SDK's client with a session for each
// stream and default settings. It receives resource updates whose _meta carries
// the content of an event.
type sessions struct {
	base
	client *mcp.Client
	http   *http.Client

	mu   sync.Mutex
	made []*mcp.ClientSession
}

func newSessions(s spec, _ *eventmeter.Clock) (client, error) {
	c := &sessions{base: base{spec: s}}
	// By default net/http keeps two idle connections to a host, and nearly every
	// call would open a new one.
	c.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1 << 16}}
	c.client = mcp.NewClient(&mcp.Implementation{Name: "eventbench", Version: "0.1"}, &mcp.ClientOptions{
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
	_, err := loadgen.Attach(
		ctx,
		loadgen.AttachOptions{N: len(c.made), Concurrency: 32, Continue: true},
		func(_ context.Context, i int) error {
			return c.made[i].Close()
		},
	)
	c.http.CloseIdleConnections()
	return err
}
