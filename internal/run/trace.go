package run

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/upstream"
)

func readTrace(name string) ([]upstream.TraceEntry, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := upstream.ReadTrace(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return entries, nil
}

// startTrace starts the trace of Options.Record in the first pass.
func (r *run) startTrace() error {
	if r.opts.Record == nil || r.tracer != nil || r.traced {
		return nil
	}
	r.traced = true
	if r.profile.Upstream.Kind == "none" {
		r.tracer = upstream.NewTraceRecorder(r.opts.Record, nil)
		return nil
	}
	c, ok := r.target.upstream.(upstream.Recorded)
	if ok {
		_, sample := c.Content(upstream.Emission{Stamp: eventmeter.Stamp{Seq: 1}})
		var object map[string]json.RawMessage
		ok = json.Unmarshal(sample, &object) == nil && object != nil
	}
	if !ok {
		return fmt.Errorf(
			"%w: a trace holds JSON objects, and upstream.kind %s sends something else here: give it a payload that is one",
			ErrProfile,
			r.profile.Upstream.Kind,
		)
	}
	r.tracer = upstream.NewTraceRecorder(r.opts.Record, c.Content)
	return nil
}

// endTrace waits until the trace is written.
func (r *run) endTrace() {
	if r.tracer == nil {
		return
	}
	r.entries, r.traceErr = r.tracer.Close()
	r.tracer = nil
}
