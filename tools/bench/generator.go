//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/eventmeter/eventmeter/loadgen/upstream"
	"github.com/eventmeter/eventmeter/results"
)

// bottleneck is the exit code of a run whose generator was the bottleneck. Here it always is one: it shares
// the processors with a target that costs less.
const bottleneck = 4

// generate is the role that runs eventmeter, which ends with this process.
func generate(ctx context.Context, s spec, send func(reply) error) error {
	if err := writeTrace(filepath.Join(s.Dir, "trace.jsonl"), s); err != nil {
		return err
	}
	text, err := json.Marshal(profile(s)) // JSON is YAML
	if err != nil {
		return err
	}
	name, out := filepath.Join(s.Dir, "bench.yaml"), filepath.Join(s.Dir, "out")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		return err
	}
	args := []string{"run", name, "--quiet", "--annotate", "none", "--out", out}
	var log bytes.Buffer
	c := exec.CommandContext(ctx, s.Program, args...)
	c.Stderr = &log
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 5 * time.Second
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C comes from this process
	if err := c.Start(); err != nil {
		return err
	}
	if err := send(reply{PID: c.Process.Pid}); err != nil {
		return errors.Join(err, c.Cancel(), c.Wait())
	}
	err = c.Wait()
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == bottleneck) {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(log.Bytes()))
	}
	o, err := readResult(filepath.Join(out, "result.json"))
	if err != nil {
		return err
	}
	return send(reply{Outcome: o})
}

// profile is the profile of a run with the phases of a spec.
func profile(s spec) map[string]any {
	type object = map[string]any
	lane := object{
		"name": "bench", "mode": s.Mode, "subscriptions": s.Streams, "event": eventName,
		"attach": object{"concurrency": opening},
	}
	payload := object{"note": "{{.Probe}}"}
	if s.Groups > 0 {
		group := fmt.Sprintf("{{mod .Index %d}}", s.Groups)
		lane["sources"], lane["arguments"], payload["group"] = group, object{"group": group}, "{{.Source}}"
	}
	switch s.Mode {
	case "push":
		lane["http"], lane["push"] = s.HTTP, object{"heartbeat": "1h"}
	case "poll":
		lane["poll"] = object{"minInterval": s.PollEvery.String()}
	case "webhook":
		lane["webhook"] = object{
			"ttl": s.TTL.String(), "refreshAt": refreshAt, "refreshJitter": refreshJitter,
		}
	}
	return object{
		"name":     "bench",
		"target":   object{"url": s.URL, "tokens": []string{token}},
		"lanes":    []object{lane},
		"upstream": object{"kind": "inject", "admin": s.Admin, "payload": payload, "sources": s.groups(), "workers": 16},
		"schedule": object{"kind": "trace", "file": filepath.Join(s.Dir, "trace.jsonl")},
		"phases": object{
			"ready": s.Timeout.String(), "warmup": (s.Settle + s.Idle).String(), "measure": s.Paced.String(),
			"drain": s.Timeout.String(), "late": "0s",
		},
		"limits": object{"subscriptions": s.Streams + 1},
	}
}

// Refreshes are due at a random time between a twentieth and half of a subscription's life, so that they
// soon come at an even rate.
const (
	refreshAt     = 0.5
	refreshJitter = 0.45
	refreshedAt   = refreshAt - refreshJitter/2 // mean
)

// writeTrace writes when events are due: one for each group at once, and those of the paced phase.
func writeTrace(name string, s spec) error {
	var text []byte
	var err error
	add := func(at time.Duration) {
		if err == nil {
			text, err = upstream.TraceEntry{At: at, Payload: json.RawMessage(`{}`)}.Append(text)
		}
	}
	for range s.groups() {
		add(0)
	}
	begin, rate := s.Settle+s.Idle, s.Rate*float64(s.groups())
	for n := range max(s.groups(), int(math.Ceil(rate*s.Paced.Seconds()))) {
		add(begin + min(time.Duration(float64(n)/rate*float64(time.Second)), s.Paced-1))
	}
	if err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o600)
}

// readResult reads what a run says of itself. What it has used is measured from outside.
func readResult(name string) (*outcome, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := results.Read(f)
	if err != nil {
		return nil, err
	}
	o := &outcome{Values: map[string]float64{"failed": 0}}
	for _, p := range r.Phases {
		begin, end := r.Started.Add(time.Duration(p.Start)), r.Started.Add(time.Duration(p.End))
		switch p.Name {
		case "attach":
			o.Began, o.Opened = begin, end
		case "measure":
			o.Full, o.Paced = begin, begin
		case "drain":
			o.Ended = end
		}
	}
	l, u := r.Lanes[0], r.Upstream
	o.Delivered = l.Delivered
	o.Lost = l.Expected - l.Delivered + l.Duplicates.SameEvent + l.Duplicates.SameEmission + l.Unexpected + u.Refused + u.Uncertain + u.Dropped
	o.Values["connections"] = float64(l.Overhead.Connections)
	for _, n := range l.Failures {
		o.Values["failed"] += float64(n)
	}
	return o, nil
}
