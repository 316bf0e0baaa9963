package mcpclient_test

import (
	"context"
	"errors"
	"testing"

	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

func TestCallTool(t *testing.T) {
	for _, era := range []mcpclient.Era{mcpclient.Modern, mcpclient.Legacy} {
		t.Run(string(era), func(t *testing.T) {
			s, err := refserver.New(refserver.Options{})
			must(t, err)
			must(t, s.Start(t.Context()))
			e, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: s.URL(), Era: era, Tokens: []string{"a", "b"}})
			must(t, err)
			for i := range 3 { // the first call of each principal shakes hands
				a, err := e.CallTool(t.Context(), i, "post_message", []byte(`{"channel":"c","text":"hello"}`))
				if !a.Sent || !a.Answered || !a.Result || !a.Complete || a.IsError || a.Status != 200 || a.Code != 0 || err != nil {
					t.Errorf("call %d: %+v", i, a)
				}
			}
			if n := s.Stats().Events; n != 3 {
				t.Errorf("%d events were published", n)
			}
			if a, err := e.CallTool(
				t.Context(),
				0,
				"shout",
				[]byte(`{}`),
			); !a.Sent || !a.Answered || a.Result || a.Code != -32602 ||
				err == nil {
				t.Errorf("an unknown tool: %+v", a)
			}
			if a, err := e.CallTool(t.Context(), 0, "post_message", []byte(`{"channel":7}`)); !a.Answered || err == nil && !a.IsError {
				t.Errorf("bad arguments: %+v", a)
			}
			over, cancel := context.WithCancel(t.Context())
			cancel()
			if a, err := e.CallTool(over, 0, "post_message", []byte(`{}`)); a.Answered || err == nil {
				t.Errorf("a call that was given up: %+v", a)
			}
			if err := e.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
			gone, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: s.URL()})
			must(t, err)
			if a, err := gone.CallTool(t.Context(), 0, "post_message", []byte(`{}`)); a.Sent || !errors.Is(err, mcpclient.ErrUnreachable) {
				t.Errorf("nobody there: %+v", a)
			}
			_ = gone.Close(t.Context())
		})
	}
}
