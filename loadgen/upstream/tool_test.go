package upstream_test

import (
	"context"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/upstream"
)

var (
	_ upstream.Upstream = (*upstream.Tool)(nil)
	_ upstream.Figurer  = (*upstream.Tool)(nil)
)

func TestToolOutcomes(t *testing.T) {
	answered := mcpclient.ToolAnswer{Sent: true, Answered: true, Status: 200}
	result := answered
	result.Result, result.Complete = true, true
	failed := result
	failed.IsError = true
	question := result
	question.Complete = false
	rpc := func(status int, code int64) mcpclient.ToolAnswer {
		return mcpclient.ToolAnswer{Sent: true, Answered: true, Status: status, Code: code}
	}
	for name, c := range map[string]struct {
		answer mcpclient.ToolAnswer
		want   eventmeter.Outcome
	}{
		"result":            {result, eventmeter.Accepted},
		"isError":           {failed, eventmeter.Refused},
		"input required":    {question, eventmeter.Refused},
		"no such tool":      {rpc(200, -32602), eventmeter.Refused},
		"no such method":    {rpc(404, -32601), eventmeter.Refused},
		"no room":           {rpc(503, -32013), eventmeter.Refused},
		"internal error":    {rpc(200, -32603), eventmeter.Uncertain},
		"HTTP 401":          {rpc(401, 0), eventmeter.Refused},
		"HTTP 500":          {rpc(500, 0), eventmeter.Uncertain},
		"HTTP 200, nothing": {rpc(200, 0), eventmeter.Uncertain},
		"never sent":        {mcpclient.ToolAnswer{}, eventmeter.Refused},
		"no answer":         {mcpclient.ToolAnswer{Sent: true}, eventmeter.Uncertain},
	} {
		u, err := upstream.NewTool(
			upstream.ToolOptions{
				Arguments: payload,
				Timeout:   time.Minute,
				Call: func(ctx context.Context, source int, arguments []byte) mcpclient.ToolAnswer {
					if _, ok := ctx.Deadline(); !ok || source != 3 ||
						string(arguments) != string(payload(nil, 3, 9, emission.Stamp.String())) {
						t.Errorf("called for %d with %s", source, arguments)
					}
					return c.answer
				},
			},
		)
		must(t, err)
		if got := u.Fire(context.Background(), emission); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		sum := 0.0
		for _, v := range u.Figures().Values {
			sum += v
		}
		if failed := c.want != eventmeter.Accepted && name != "input required"; failed != (sum == 1) {
			t.Errorf("%s: %v", name, u.Figures().Values)
		}
		_ = u.Close()
	}
	if _, err := upstream.NewTool(upstream.ToolOptions{}); err == nil {
		t.Error("no options")
	}
}
