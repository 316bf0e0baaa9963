package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/report"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
)

// starterProfile is the profile that discover writes.
type starterProfile struct {
	text string // "" = the server offers nothing to run
	// publish is what --publish-with names, or a tool of the server that would do; "" = nothing is
	// published.
	publish string
}

// writeStarter writes the profile to a new file.
func (f *discoverFlags) writeStarter(profile string, io streams) error {
	if profile == "" {
		return fmt.Errorf("%w: it has no event types, and nothing in any list, so there is no profile to write", run.ErrTarget)
	}
	if _, err := profiles.Parse(f.write, []byte(profile), nil, systems.Table); err != nil {
		return fmt.Errorf("this profile would not run, so it is not written: %w", err)
	}
	file, err := os.OpenFile(f.write, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, os.ErrExist) {
		return usagef("--write %s: the file exists already; choose another, or remove it", f.write)
	}
	if err != nil {
		return usagef("--write: %w", err)
	}
	_, err = file.WriteString(profile)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("--write %s: %w", f.write, err)
	}
	fmt.Fprintf(io.err, "wrote %s\n", f.write)
	return nil
}

// try publishes one event to one subscription of each lane, and says what arrived.
func (f *discoverFlags) try(ctx context.Context, profile string, io streams) error {
	p, err := profiles.Parse("the profile", []byte(profile), []string{
		"lanes.*.subscriptions=1", "lanes.*.attach.onFailure=continue", "thresholds=[]",
		"schedule={kind: constant, rate: 1/s}", "phases={warmup: 0, measure: 1s, drain: 10s}",
	}, systems.Table)
	if err != nil {
		return fmt.Errorf("this profile would not run: %w", err)
	}
	if err := f.target.apply(&p.Target); err != nil {
		return err
	}
	out, err := run.Run(ctx, run.Options{Profile: p, AllowHosts: f.allowHosts, Version: version()})
	if err != nil {
		return fmt.Errorf("one event was tried: %w", err)
	}
	arrived := false
	for i := range out.Result.Lanes {
		l := &out.Result.Lanes[i]
		text := fmt.Sprintf("%d of %d arrived", l.Delivered, l.Expected)
		if l.Delivered > 0 {
			arrived, text = true, text+" after "+l.Latency.FromSent.Max.String()
		}
		for _, reason := range slices.Sorted(maps.Keys(l.Ready.Reasons)) {
			text += "; could not subscribe: " + reason
		}
		fmt.Fprintf(io.err, "tried one event: %s: %s\n", l.Name, text)
	}
	if !arrived {
		return fmt.Errorf("%w: one event was tried, and no subscription received it; are the arguments and the payload right?", run.ErrTarget)
	}
	return nil
}

// next returns the command that comes next.
func (f *discoverFlags) next(s starterProfile) string {
	access := ""
	if len(f.target.tokens) > 0 {
		access += " --token …"
	}
	for _, host := range f.allowHosts {
		access += " --allow-host " + host
	}
	if f.write != "" {
		return "eventmeter run " + f.write + access
	}
	at := fmt.Sprintf(" --target %q", errtext.Address(f.target.url))
	if f.target.command != "" {
		at = fmt.Sprintf(" --command %q", f.target.command)
	}
	return fmt.Sprintf("eventmeter discover%s%s --publish-with %q --write mine.yaml", at, access, cmp.Or(s.publish, "URL or tool"))
}

// starterOf writes a profile for the event type that --event names, or else for the first by name,
// or if there is none for resources whose changes the server announces, or for a list that is not
// empty.
func (f *discoverFlags) starterOf(t profiles.Target, o run.Discovery) (starterProfile, error) {
	var names []string
	for _, of := range append([]run.SystemOffer{{System: "events", Events: o.Events}}, o.Others...) {
		types := slices.SortedFunc(slices.Values(of.Events), func(a, b driver.EventType) int { return strings.Compare(a.Name, b.Name) })
		for _, e := range types {
			if f.event == "" || e.Name == f.event {
				return f.starter(t, o, of.System, e)
			}
			names = append(names, report.Clean(e.Name))
		}
	}
	if f.event != "" {
		return starterProfile{}, fmt.Errorf(
			"%w: it has no event type %q, which --event names; it has %s",
			run.ErrTarget,
			f.event,
			cmp.Or(strings.Join(slices.Compact(names), ", "), "none"),
		)
	}
	var start driver.Starter
	for _, of := range systems.All() {
		if of.Starter == nil {
			continue
		}
		// A lane that learns of changes measures more than one that fetches.
		if s := of.Starter(o.Abilities); s.Lane != "" && (start.Lane == "" || s.Sources > start.Sources) {
			start = s
		}
	}
	if start.Lane == "" {
		return starterProfile{}, nil
	}
	return f.laneStarter(t, o, start)
}

// targetLines name the target. Secrets are left out.
func (f *discoverFlags) targetLines(t profiles.Target, revision string) string {
	var b strings.Builder
	if len(t.Command) > 0 {
		words := make([]string, len(t.Command))
		for i, w := range t.Command {
			words[i] = fmt.Sprintf("%q", w)
		}
		fmt.Fprintf(&b, "target:\n  command: [%s]\n", strings.Join(words, ", "))
	} else {
		fmt.Fprintf(&b, "target:\n  url: %q\n", t.URL)
	}
	if revision != "" && revision != settings.Revision {
		fmt.Fprintf(&b, "  revision: %s\n", revision)
	}
	if f.target.tokenFile != "" {
		fmt.Fprintf(&b, "  tokenFile: %q\n", f.target.tokenFile)
	}
	if len(f.target.tokens) > 0 {
		b.WriteString("  # Tokens are not written: give --token, set EVENTMETER_TOKEN, or name a file here.\n  # tokenFile: tokens.txt\n")
	}
	if len(f.target.headers) > 0 {
		b.WriteString("  # Headers are not written: give --header, or write them here.\n  # headers: {Name: value}\n")
	}
	if host := hostOf(t); host != "" && !settings.Loopback(host) {
		fmt.Fprintf(&b, "  # A host that is not this machine is named here and with --allow-host.\n  allow: [%q]\n", host)
	}
	return b.String()
}

func hostOf(t profiles.Target) string {
	u, err := url.Parse(t.URL)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// starter writes a profile for an event type, with a lane for each of its delivery
// modes.
func (f *discoverFlags) starter(t profiles.Target, o run.Discovery, system string, e driver.EventType) (starterProfile, error) {
	of, _ := systems.Find(system)
	spoken := ""
	if system != "events" {
		spoken = "    system: " + system + "\n"
	}
	arguments, guessed := sampleOf(e.InputSchema, true, "")
	note := ""
	if guessed {
		note = "  # change these: the server requires them"
	}
	var b strings.Builder
	fmt.Fprintf(
		&b,
		"# %s, as eventmeter discover found it. docs/profile.md explains every key.\nname: first-try\n%slanes:\n",
		oneLine(e.Name),
		f.targetLines(t, string(o.Revision)),
	)
	for _, m := range []eventmeter.Mode{eventmeter.Push, eventmeter.Poll, eventmeter.Webhook} {
		if !slices.Contains(of.Modes, string(m)) || len(e.Delivery) > 0 && !slices.Contains(e.Delivery, m) {
			continue
		}
		fmt.Fprintf(
			&b,
			"  - name: %s\n%s    mode: %s\n    subscriptions: 10\n    event: %q\n    arguments: %s%s\n",
			m,
			spoken,
			m,
			e.Name,
			flow(arguments),
			note,
		)
		if m == eventmeter.Webhook {
			b.WriteString(webhookLines(t))
		}
	}
	payload, _ := sampleOf(e.PayloadSchema, false, probe)
	upstream, err := f.upstreamLines(o, f.publish, withProbe(payload), driver.Starter{})
	b.WriteString(upstream)
	return starterProfile{b.String(), f.publish}, err
}

// webhookLines are the listener of a webhook lane.
func webhookLines(t profiles.Target) string {
	listen, callback := "127.0.0.1:0", "https://127.0.0.1:0"
	if host := hostOf(t); host != "" && !settings.Loopback(host) {
		listen, callback = "0.0.0.0:8443", "https://"+net.JoinHostPort(cmp.Or(addressTowards(host), "this-machine.example"), "8443")
	}
	return fmt.Sprintf(`    webhook:
      # Where the listener is, and the URL under which the server reaches it.
      listen: %q
      callback: %q
      # The server must trust the listener's certificate. Without the next lines, the
      # certificate is made for the run, and a server that checks certificates refuses it.
      # Such a server needs one that it trusts, for the host of the callback, in PEM:
      # certFile: callback.crt
      # keyFile: callback.key
`, listen, callback)
}

// addressTowards returns the address of this machine from which it reaches a host; "" =
// it cannot be told. Nothing is sent.
func addressTowards(host string) string {
	c, err := net.Dial("udp", net.JoinHostPort(host, "9"))
	if err != nil {
		return ""
	}
	defer c.Close()
	if a, ok := c.LocalAddr().(*net.UDPAddr); ok {
		return a.IP.String()
	}
	return ""
}

// probe is the template of the probe id.
const probe = "{{.Probe}}"

// upstreamLines say how events are published, and what is judged. publish is a value of
// --publish-with, payload what its request has if neither it nor a schema says what.
func (f *discoverFlags) upstreamLines(o run.Discovery, publish string, payload map[string]any, start driver.Starter) (string, error) {
	const phases = "phases: {warmup: 2s, measure: 10s, drain: 5s}\n"
	name, body, _ := strings.Cut(strings.TrimSpace(publish), " ")
	var lines string
	switch {
	case name == "":
		return `# Nothing is published: the lanes receive what the server publishes by itself. To measure
# losses and latencies, discover with --publish-with, or say here what makes the server
# publish an event (docs/upstreams.md).
upstream: {kind: none}
` + phases, nil
	case !strings.Contains(name, "://"):
		i := slices.IndexFunc(o.Abilities.Tools, func(t mcpclient.Tool) bool { return t.Name == name })
		if i < 0 {
			return "", usagef("--publish-with %s: the server lists no such tool, and it is no URL", name)
		}
		payload, _ = argumentsOf(o.Abilities.Tools[i], start.Resource)
		if f.publish == "" {
			lines = "  # The tool is a guess: it seems to write the resources.\n"
		}
		lines += fmt.Sprintf("  kind: tool\n  tool: {name: %q}\n", name)
	case o.Server == referenceServer && strings.Count(strings.TrimRight(name, "/"), "/") == 2: // its admin address has no path
		lines = fmt.Sprintf("  kind: inject\n  admin: %q\n", name)
	default:
		lines = fmt.Sprintf("  kind: http\n  http: {url: %q}\n", name)
	}
	if body != "" {
		payload = nil
		if err := json.Unmarshal([]byte(body), &payload); err != nil {
			return "", usagef("--publish-with: what follows %s is not a JSON object: %w", name, err)
		}
	}
	return fmt.Sprintf(`upstream:
  # What makes the server publish an event, with the probe id in a string that comes back to
  # its subscribers.
%s  sources: %d
  payload: %s
schedule: {kind: constant, rate: 5/s}
%sthresholds: ["*.lostSilent == 0", "*.lostAnnounced == 0", "*.lostUndeliverable == 0", "*.lostRefused == 0", "*.lostSuspended == 0"]
`, lines, max(1, start.Sources), flow(payload), phases), nil
}

// referenceServer is the name of the server that eventmeter serve starts.
const referenceServer = "eventmeter-target"

// laneStarter writes a profile around a lane of a system without event types.
func (f *discoverFlags) laneStarter(t profiles.Target, o run.Discovery, start driver.Starter) (starterProfile, error) {
	payload := map[string]any{"text": probe}
	publish := f.publish
	if start.Sources > 0 {
		payload["uri"] = start.Resource
		for _, tool := range o.Abilities.Tools {
			if _, writes := argumentsOf(tool, start.Resource); writes {
				publish = cmp.Or(publish, tool.Name)
			}
		}
	}
	if publish != "" && start.Sources > 1 {
		start.Lane += fmt.Sprintf("    sources: \"{{mod .Index %d}}\"\n", start.Sources)
	}
	upstream, err := f.upstreamLines(o, publish, payload, start)
	return starterProfile{"name: first-try\n" + f.targetLines(t, "") + "lanes:\n" + start.Lane + upstream, publish}, err
}

// argumentsOf are arguments of a tool that changes a resource. writes reports whether the tool
// seems to write a text into a resource that it is given.
func argumentsOf(t mcpclient.Tool, resource string) (arguments map[string]any, writes bool) {
	arguments, _ = sampleOf(t.InputSchema, false, probe)
	if arguments["uri"] == probe && resource != "" {
		arguments["uri"] = resource
		writes = slices.ContainsFunc(texts, func(key string) bool { return arguments[key] == probe })
	}
	return withProbe(arguments), writes
}

// maxSampled bounds the levels of a sample.
const maxSampled = 4

// sampleOf makes an object by a JSON Schema: its required properties alone, or all that
// are plain values. Texts are text, or a word if that is empty. guessed reports whether
// it has values that the schema does not name.
func sampleOf(schema json.RawMessage, requiredOnly bool, text string) (out map[string]any, guessed bool) {
	var s sampled
	_ = json.Unmarshal(schema, &s) // what is odd has no properties
	return s.object(requiredOnly, text, maxSampled)
}

type sampled struct {
	Type       any                 `json:"type"`
	Properties map[string]*sampled `json:"properties"`
	Required   []string            `json:"required"`
	Enum       []any               `json:"enum"`
	Const      any                 `json:"const"`
	Default    any                 `json:"default"`
	Examples   []any               `json:"examples"`
	Minimum    *float64            `json:"minimum"`
}

func (s *sampled) object(requiredOnly bool, text string, depth int) (out map[string]any, guessed bool) {
	out = map[string]any{}
	for name, p := range s.Properties {
		if p == nil || !slices.Contains(s.Required, name) && (requiredOnly || p.Type != "string") {
			continue
		}
		v, g := p.value(requiredOnly, text, depth-1)
		out[name], guessed = v, guessed || g
	}
	return out, guessed
}

func (s *sampled) value(requiredOnly bool, text string, depth int) (v any, guessed bool) {
	switch {
	case s.Const != nil:
		return s.Const, false
	case len(s.Enum) > 0:
		return s.Enum[0], false
	case s.Default != nil:
		return s.Default, false
	case len(s.Examples) > 0 && s.Type != "string":
		return s.Examples[0], false
	}
	switch s.Type {
	case "integer", "number":
		if s.Minimum != nil {
			return *s.Minimum, true
		}
		return 1, true
	case "boolean":
		return true, true
	case "array":
		return []any{}, true
	case "object":
		if depth > 0 {
			return s.object(requiredOnly, text, depth)
		}
		return map[string]any{}, true
	}
	if len(s.Examples) > 0 && text == "" {
		return s.Examples[0], false
	}
	return cmp.Or(text, "change-me"), true
}

// texts are names of texts that people read, the best first.
var texts = []string{"text", "message", "body", "content", "value", "title", "description", "name"}

// withProbe keeps the probe id in one text of a payload, the one that people would read,
// and adds one if there is none.
func withProbe(payload map[string]any) map[string]any {
	keys := slices.Sorted(maps.Keys(payload))
	chosen := ""
	for _, key := range append(texts, keys...) {
		if payload[key] == probe {
			chosen = key
			break
		}
	}
	for _, key := range keys {
		if payload[key] == probe && key != chosen {
			payload[key] = "sample"
		}
	}
	if chosen == "" {
		payload["text"] = probe
	}
	return payload
}

// flow writes an object as JSON, which is YAML, too.
func flow(v map[string]any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return "{}" // it came from JSON
	}
	return strings.TrimSpace(b.String())
}

// oneLine makes a name safe for a comment.
func oneLine(name string) string { return strings.Join(strings.Fields(report.Clean(name)), " ") }
