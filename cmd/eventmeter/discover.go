package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/report"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/spf13/cobra"
)

// discoverFlags are the flags of the discover command.
type discoverFlags struct {
	target     targetFlags
	allowHosts []string
	event      string
	json       bool
}

func newDiscoverCommand(io streams) *cobra.Command {
	var f discoverFlags
	c := &cobra.Command{
		Use:   "discover {--target URL | --command 'PROGRAM ARGS'}",
		Short: "Show what a server offers, and print a profile for it",
		Long: `Discover connects to a server, and prints its protocol era and versions, its
capabilities, its event types with their delivery modes and schemas, the
features of the other systems that it supports (Smithery triggers, SEP-1803
event resources, SEP-975 resumable requests, SEP-2549 times to live), and a
profile to start from: for the event type that --event names, otherwise for the
first by name, otherwise for a list. It names the revision of MCP Events that
the server speaks, and each deviation from it; to find out, it polls, and
unsubscribes what does not exist. It subscribes to nothing. It also works
with a server that answers events/list without advertising the capability, and
with a server that has only lists.`,
		Example: `  eventmeter discover --target http://127.0.0.1:8080/mcp --token secret
  eventmeter discover --command 'eventmeter serve --stdio'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return discover(c.Context(), f, io) },
	}
	f.target.add(c)
	c.Flags().StringArrayVar(&f.allowHosts, "allow-host", nil, "connect to this host, which is not this machine (repeatable)")
	c.Flags().StringVar(&f.event, "event", "", "event type that the profile is for (default: the first by name)")
	c.Flags().BoolVar(&f.json, "json", false, "print as JSON")
	return c
}

// discover is the discover command.
func discover(ctx context.Context, f discoverFlags, io streams) error {
	t, err := f.target.alone()
	if err != nil {
		return err
	}
	ctx, release := untilInterrupt(ctx, io)
	defer release()
	offer, err := run.DiscoverTarget(ctx, t, f.allowHosts, version())
	if err != nil {
		return err
	}
	if f.json {
		enc := json.NewEncoder(io.out)
		enc.SetIndent("", "  ")
		return enc.Encode(offer)
	}
	return describe(io.out, t, offer, f.event)
}

func describe(w io.Writer, t profiles.Target, o run.Discovery, event string) error {
	profile, err := starterOf(t, o, event)
	if err != nil {
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "server\t%s %s\n", report.Clean(o.Server), report.Clean(o.ServerVersion))
	era := string(o.Era) + " " + report.Clean(o.Version)
	if o.Fallback != "" {
		era += " (fallback after " + report.Clean(o.Fallback) + ")"
	}
	fmt.Fprintf(tw, "era\t%s\n", era)
	if len(o.Versions) > 0 {
		fmt.Fprintf(tw, "versions\t%s\n", report.Clean(strings.Join(o.Versions, " ")))
	}
	capability := "not advertised"
	if o.Capability != "" {
		capability = "advertised under " + o.Capability
	}
	if o.ListChanged {
		capability += ", with listChanged"
	}
	if o.NoEvents != "" {
		capability += ", not listed: " + report.Clean(o.NoEvents)
	}
	fmt.Fprintf(tw, "events\t%s, %d types\n", capability, len(o.Events))
	if o.Revision != "" {
		fmt.Fprintf(tw, "revision\t%s\n", o.Revision)
	}
	for _, how := range o.Deviations {
		fmt.Fprintf(tw, "deviates\t%s\n", report.Clean(how))
	}
	if o.Smithery != nil {
		fmt.Fprintf(tw, "smithery\t%d triggers\n", len(o.Smithery))
	}
	if len(o.Resources) > 0 {
		fmt.Fprintf(tw, "sep-1803\t%d event resources\n", len(o.Resources))
	}
	if o.Abilities.Resumable {
		fmt.Fprintf(tw, "sep-975\tknows requests/getStatus; what can be resumed shows only when it is asked for\n")
	}
	for _, l := range o.Abilities.Lists {
		fmt.Fprintf(tw, "sep-2549\t%s: %s\n", l.Method, keeps(l))
	}
	if len(o.Capabilities) > 0 {
		fmt.Fprintf(tw, "capabilities\t%s\n", report.Clean(string(o.Capabilities)))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	describeTypes(w, "", o.Events)
	describeTypes(w, "smithery: ", o.Smithery)
	describeTypes(w, "sep-1803: ", o.Resources)
	if profile == "" {
		_, err := fmt.Fprintln(w, "\nno event types, and nothing in any list, so there is nothing to run")
		return err
	}
	_, err = fmt.Fprintf(w, "\n# a profile to start from: put it into a file and run it with --profile FILE\n%s", profile)
	return err
}

// keeps says how long a list may be kept.
func keeps(l mcpclient.ListAbility) string {
	entries := fmt.Sprintf("%d entries", l.Entries)
	if l.Entries == 1 {
		entries = "1 entry"
	}
	if l.More {
		entries += " on the first page"
	}
	if !l.HasTTL {
		return entries + ", no time to live"
	}
	scope := l.Scope
	if scope == "" {
		scope = "scope not said"
	}
	return fmt.Sprintf("%s, %v to live, %s", entries, l.TTL, scope)
}

func describeTypes(w io.Writer, system string, types []driver.EventType) {
	for _, e := range types {
		fmt.Fprintf(w, "\n%s%s  %s\n", system, report.Clean(e.Name), modes(e))
		if e.Description != "" {
			fmt.Fprintf(w, "  %s\n", report.Clean(e.Description))
		}
		if len(e.InputSchema) > 0 {
			fmt.Fprintf(w, "  arguments  %s\n", report.Clean(string(e.InputSchema)))
		}
		if len(e.PayloadSchema) > 0 {
			fmt.Fprintf(w, "  payload    %s\n", report.Clean(string(e.PayloadSchema)))
		}
	}
}

// starterOf writes a profile for the event type with that name, else for the
// first by name, else for a list that is not empty. "" = there is nothing.
func starterOf(t profiles.Target, o run.Discovery, event string) (string, error) {
	var names []string
	for _, of := range []struct {
		system string
		types  []driver.EventType
	}{{"events", o.Events}, {"smithery", o.Smithery}, {"sep-1803", o.Resources}} {
		types := slices.SortedFunc(slices.Values(of.types), func(a, b driver.EventType) int { return strings.Compare(a.Name, b.Name) })
		for _, e := range types {
			if event == "" || e.Name == event {
				return starter(t, of.system, e), nil
			}
			names = append(names, report.Clean(e.Name))
		}
	}
	if event != "" {
		return "", fmt.Errorf("%w: it has no event type %q, which --event names; it has %s", run.ErrTarget, event, cmp.Or(strings.Join(slices.Compact(names), ", "), "none"))
	}
	for _, l := range o.Abilities.Lists {
		if list := listNames[l.Method]; l.Entries > 0 && list != "" {
			return listStarter(t, list, l.HasTTL), nil
		}
	}
	return "", nil
}

// listNames are the lists that a lane can use, by method.
var listNames = map[string]string{
	"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "templates",
}

// alone is the target that the flags name without a profile.
func (t *targetFlags) alone() (profiles.Target, error) {
	if t.url == "" && t.command == "" {
		return profiles.Target{}, usageError{errors.New("give the server with --target URL or --command 'PROGRAM ARGS'")}
	}
	if _, err := t.commandOverride(); err != nil {
		return profiles.Target{}, err
	}
	out := profiles.Target{URL: t.url}
	if t.command != "" {
		var err error
		if out.Command, err = profiles.SplitCommand(t.command); err != nil {
			return profiles.Target{}, usageError{fmt.Errorf("--command: %w", err)}
		}
	}
	return out, t.apply(&out)
}

// where is the line of a profile that names the target.
func where(t profiles.Target) string {
	if len(t.Command) > 0 {
		words := make([]string, len(t.Command))
		for i, w := range t.Command {
			words[i] = fmt.Sprintf("%q", w)
		}
		return "command: [" + strings.Join(words, ", ") + "]"
	}
	return fmt.Sprintf("url: %q", t.URL)
}

func modes(e driver.EventType) string {
	if len(e.Delivery) == 0 {
		return "(no delivery modes named)"
	}
	var out []string
	for _, m := range e.Delivery {
		out = append(out, string(m))
	}
	return strings.Join(out, ", ")
}

// starter writes a profile for an event type, with a lane for each mode that it
// is delivered by.
func starter(t profiles.Target, system string, e driver.EventType) string {
	all := map[string][]eventmeter.Mode{
		"events": {eventmeter.Push, eventmeter.Poll, eventmeter.Webhook}, "smithery": {eventmeter.Webhook}, "sep-1803": {eventmeter.Push, eventmeter.Webhook},
	}[system]
	of := ""
	if system != "events" {
		of = "    system: " + system + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "name: first-try\ntarget:\n  %s\nlanes:\n", where(t))
	for _, m := range all {
		if len(e.Delivery) > 0 && !slices.Contains(e.Delivery, m) {
			continue
		}
		fmt.Fprintf(&b, "  - name: %s\n%s    mode: %s\n    subscriptions: 10\n    event: %q\n    arguments: {}  # see the schema above\n", m, of, m, e.Name)
	}
	b.WriteString(`upstream:
  # Any request that makes the server emit the event, with the probe id in a
  # string that comes back to its subscribers.
  kind: http
  http:
    method: POST
    url: http://127.0.0.1:9000/change-me
    headers: {Content-Type: application/json}
    body: '{"text": "{{.Probe}}"}'
schedule: {kind: constant, rate: 5/s}
phases: {warmup: 2s, measure: 10s, drain: 5s}
thresholds: ["*.lostSilent == 0", "*.lostAnnounced == 0", "*.lostUndeliverable == 0", "*.lostRefused == 0", "*.lostSuspended == 0"]
`)
	return b.String()
}

// listStarter writes a profile whose clients use a list.
func listStarter(t profiles.Target, list string, hasTTL bool) string {
	why := "The server says how long a copy may be kept."
	if !hasTTL {
		why = "The server does not say how long a copy may be kept, so every use fetches."
	}
	return fmt.Sprintf(`name: first-try
target:
  %s
lanes:
  # Clients that use a list again and again. %s
  - name: lists
    system: sep-2549
    mode: poll
    subscriptions: 10
    sep2549: {list: %s, use: 1/s}
# Nothing is changed on the server, so this measures fetches and copies alone.
upstream: {kind: none}
phases: {warmup: 2s, measure: 10s, drain: 5s}
`, where(t), why, list)
}
