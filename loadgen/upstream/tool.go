package upstream

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// ToolOptions describe a [Tool].
type ToolOptions struct {
	// Call calls the tool and returns its answer. Many goroutines call it at once.
	// Required.
	Call func(ctx context.Context, source int, arguments []byte) mcpclient.ToolAnswer
	// Arguments are the call's arguments. Required.
	Arguments Payload
	// Timeout of one emission; 0 means [DefaultTimeout].
	Timeout time.Duration
}

// toolOutcome returns the outcome of an answer. A result without isError is Accepted, and
// one with isError is Refused. A JSON-RPC error is Refused, because it precedes the
// run of the tool, except for an internal error (-32603), which may occur while the
// tool runs and is Uncertain.
func toolOutcome(a mcpclient.ToolAnswer) eventmeter.Outcome {
	const internal = -32603
	switch {
	case a.Sent && !a.Answered:
		return eventmeter.Uncertain
	case a.Sent && a.Result && a.Complete && !a.IsError:
		return eventmeter.Accepted
	case !a.Sent, a.Result, a.Code != 0 && a.Code != internal, a.Code == 0 && a.Status >= 300 && a.Status < 500:
		return eventmeter.Refused
	}
	return eventmeter.Uncertain
}

// Tool publishes by calling an MCP tool of the target, which causes the event.
type Tool struct {
	failures
	o ToolOptions

	errors, refused, unanswered atomic.Int64
}

// NewTool checks the options. It does not connect.
func NewTool(o ToolOptions) (*Tool, error) {
	if o.Call == nil || o.Arguments == nil {
		return nil, errors.New("upstream tool: Call and Arguments must be given")
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	return &Tool{o: o}, nil
}

// Fire implements [Upstream].
func (t *Tool) Fire(ctx context.Context, emission Emission) eventmeter.Outcome {
	ctx, cancel := context.WithTimeout(ctx, t.o.Timeout)
	defer cancel()
	a := t.o.Call(ctx, int(emission.Source), t.o.Arguments.append(nil, emission))
	if a.Failure != "" {
		t.failed("%s", a.Failure)
	}
	switch {
	case a.IsError:
		t.errors.Add(1)
	case !a.Answered:
		t.unanswered.Add(1)
	case !a.Result:
		t.refused.Add(1)
	}
	return toolOutcome(a)
}

// Figures implements [Figurer].
func (t *Tool) Figures() Figures {
	return Figures{Values: map[string]float64{
		"toolErrors": float64(t.errors.Load()), "toolRefusals": float64(t.refused.Load()), "toolUnanswered": float64(t.unanswered.Load()),
	}}
}

// Content implements [Recorded].
func (t *Tool) Content(emission Emission) (string, []byte) {
	return "", t.o.Arguments.append(nil, emission)
}

// Close implements [Upstream].
func (t *Tool) Close() error { return nil }
