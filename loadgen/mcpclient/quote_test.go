package mcpclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// Errors say what came back, and keep the secrets of the URL to themselves.
func TestErrorsQuoteTheAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		is     error
		want   string
	}{
		"no such page": {func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "\nno route for "+r.URL.String()+"\nsee the docs", 404)
		},
			mcpclient.ErrProtocol, "initialize: http 404: no route for /mcp?key=…: is this the MCP endpoint?"},
		"no token": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "{\n \"error\": \"the token has expired\"\n}", http.StatusUnauthorized)
		}, mcpclient.ErrAuth, mcpclient.ErrAuth.Error() + `: server/discover: http 401: {"error":"the token has expired"}: check the token`},
		"busy": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "back at noon", http.StatusServiceUnavailable)
		}, mcpclient.ErrThrottled,
			"http 503: back at noon: try again later"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(c.answer)
			defer server.Close()
			address := strings.Replace(server.URL, "http://", "http://me:hunter22@", 1) + "/mcp?key=s3cr3t"
			ep, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: address})
			must(t, err)
			defer ep.Close(context.Background())
			if ep.URL() != address || ep.Name() != server.URL+"/mcp?key=…" {
				t.Errorf("address %s, name %s", ep.URL(), ep.Name())
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			err = ep.Connect(ctx)
			if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), ep.Name()) {
				t.Errorf("%v", err)
			}
			if text := fmt.Sprint(err); strings.Contains(text, "s3cr3t") || strings.Contains(text, "hunter22") {
				t.Errorf("a secret in: %v", err)
			}
		})
	}
}

// A tool that fails is quoted: an error of the transport, of JSON-RPC, and of
// the tool itself.
func TestToolsQuoteTheAnswer(t *testing.T) {
	const handshake = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"serverInfo":{"name":"x","version":"1"}}`
	answer := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		body := answer
		if m.Method != "tools/call" {
			body = `"result":` + handshake
		}
		if !strings.HasPrefix(body, `"`) {
			http.Error(w, body, http.StatusTeapot)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, body)
	}))
	defer server.Close()
	ep, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: server.URL, Era: mcpclient.Modern})
	must(t, err)
	defer ep.Close(context.Background())
	for in, want := range map[string]string{
		"no tea\nat all": "tools/call: http 418: no tea",
		`"error":{"code":-32602,"message":"no such tool"}`:                                        "tools/call: rpc -32602: no such tool",
		`"result":{"isError":true,"content":[{"type":"text","text":"\nthe kettle is empty\nx"}]}`: "isError: the kettle is empty",
		`"result":{"isError":true,"content":[]}`:                                                  "isError",
		`"result":{"resultType":"input_required"}`:                                                "resultType input_required",
		`"result":{"content":[{"type":"text","text":"done"}]}`:                                    "",
	} {
		if want != "" {
			want = "tool brew at " + server.URL + ": " + want
		}
		answer = in
		if a, _ := ep.CallTool(t.Context(), 0, "brew", []byte("{}")); a.Failure != want {
			t.Errorf("%s: %q, want %q", in, a.Failure, want)
		}
	}
}
