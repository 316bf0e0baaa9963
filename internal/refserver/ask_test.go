package refserver

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestQuestionsToTheOfficialClient has the slow tool ask clients of the SDK something, which
// accept, decline, or answer an error. The work goes on with each answer, and the server
// counts them. A client that does not declare that it can be asked is asked nothing.
func TestQuestionsToTheOfficialClient(t *testing.T) {
	s := startServer(t, Options{})
	const calls = 3
	for _, c := range []struct {
		reply             string
		asked             func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error)
		answered, refused int64
	}{
		{"accept", func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"note": "go"}}, nil
		}, calls, 0},
		{"decline", func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "decline"}, nil
		}, calls, 0},
		{"error", func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return nil, errors.New("nobody is here")
		}, 0, calls},
		{"", nil, 0, 0},
	} {
		t.Run("reply "+c.reply, func(t *testing.T) {
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			client := mcp.NewClient(&mcp.Implementation{Name: "t", Version: "1"}, &mcp.ClientOptions{ElicitationHandler: c.asked})
			session, err := client.Connect(
				t.Context(),
				&mcp.StreamableClientTransport{Endpoint: s.URL(), HTTPClient: &http.Client{Transport: transport}},
				&mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"},
			)
			must(t, err)
			defer session.Close()
			before := s.Stats().Resumable
			for range calls {
				r, err := session.CallTool(
					t.Context(),
					&mcp.CallToolParams{Name: workTool, Arguments: map[string]any{"steps": 2, "stepMs": 1, "ask": 1}},
				)
				if c.asked == nil {
					if err == nil {
						t.Errorf("%+v", r)
					}
					continue
				}
				must(t, err)
				if got, _ := r.StructuredContent.(map[string]any); r.IsError || got["reply"] != c.reply {
					t.Errorf("%+v", r)
				}
			}
			now := s.Stats().Resumable
			got := [...]int64{now.Asked - before.Asked, now.Answered - before.Answered, now.Denied - before.Denied}
			if want := [...]int64{c.answered + c.refused, c.answered, c.refused}; got != want {
				t.Errorf("asked, answered, denied: %v, want %v", got, want)
			}
		})
	}
}
