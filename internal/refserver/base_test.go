package refserver

import (
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestOfficialClient calls the server with the SDK's own client.
func TestOfficialClient(t *testing.T) {
	s := startServer(t, Options{})
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := mcp.NewClient(&mcp.Implementation{Name: "t", Version: "1"}, nil)
	session, err := client.Connect(
		t.Context(),
		&mcp.StreamableClientTransport{Endpoint: s.URL(), HTTPClient: &http.Client{Transport: transport}},
		nil,
	)
	must(t, err)
	defer session.Close()
	if _, ok := session.InitializeResult().Capabilities.Extensions["io.modelcontextprotocol/events"]; !ok {
		t.Errorf("capabilities %+v lack events", session.InitializeResult().Capabilities)
	}
	tools, err := session.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != 3 {
		t.Fatalf("tools %v, %v", tools, err)
	}
	r, err := session.CallTool(
		t.Context(),
		&mcp.CallToolParams{Name: "post_message", Arguments: map[string]any{"channel": "c", "text": "x"}},
	)
	if err != nil || r.IsError {
		t.Fatalf("post_message: %+v, %v", r, err)
	}
	if r, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "server_stats"}); err != nil || r.IsError {
		t.Fatalf("server_stats: %+v, %v", r, err)
	}
	info, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "info://server"})
	if err != nil || !strings.Contains(info.Contents[0].Text, "chat.message") {
		t.Fatalf("info: %+v, %v", info, err)
	}
	prompt, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "summary", Arguments: map[string]string{"channel": "c"}})
	if err != nil || len(prompt.Messages) != 1 {
		t.Fatalf("summary: %+v, %v", prompt, err)
	}
	if s.Stats().Events != 1 {
		t.Errorf("events %d, want 1", s.Stats().Events)
	}
}
