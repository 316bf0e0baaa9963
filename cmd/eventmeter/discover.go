package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	goio "io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/report"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/spf13/cobra"
)

// discoverFlags are the flags of the discover command.
type discoverFlags struct {
	target     targetFlags
	allowHosts []string
	event      string
	format     formatFlags
}

func newDiscoverCommand(io streams) *cobra.Command {
	var f discoverFlags
	c := &cobra.Command{
		Use:   "discover {--target URL | --command 'PROGRAM ARGS'}",
		Short: "Show what a server offers, and print a profile for it",
		Long: `Discover connects to a server, and prints its protocol era and versions, its
capabilities, its event types with their delivery modes and schemas, the
features of the other systems that it supports
(` + strings.Join(systems.Offers(), ", ") + `),
and a profile to start from: for the event type that --event names, otherwise
for the first by name, otherwise for a list. It names the revision of MCP Events that
the server speaks, and each deviation from it. To find them, it polls, and ends a
subscription that does not exist. It subscribes to nothing. It also works
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
	f.format.add(c, formatText, formatJSON)
	return c
}

// discover is the discover command.
func discover(ctx context.Context, f discoverFlags, io streams) error {
	if err := f.format.check(); err != nil {
		return err
	}
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
	return f.format.all(io, rendering{
		formatText: func(w goio.Writer) error { return describe(w, t, offer, f.event) },
		formatJSON: indented(offer),
	})
}

// indented writes v as JSON for people and programs.
func indented(v any) func(goio.Writer) error {
	return func(w goio.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	}
}

func describe(w goio.Writer, t profiles.Target, o run.Discovery, event string) error {
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
	fmt.Fprintf(tw, "events\t%s, %d types\n", capabilityOf(o), len(o.Events))
	if o.Revision != "" {
		fmt.Fprintf(tw, "revision\t%s\n", o.Revision)
	}
	for _, how := range o.Deviations {
		fmt.Fprintf(tw, "deviates\t%s\n", report.Clean(how))
	}
	for _, other := range o.Others {
		of, _ := systems.Find(other.System)
		fmt.Fprintf(tw, "%s\t%d %s\n", of.Name, len(other.Events), of.Offers)
	}
	for _, of := range systems.All() {
		if of.Describe == nil {
			continue
		}
		for _, line := range of.Describe(o.Abilities) {
			fmt.Fprintf(tw, "%s\t%s\n", of.Name, line)
		}
	}
	if len(o.Capabilities) > 0 {
		fmt.Fprintf(tw, "capabilities\t%s\n", report.Clean(string(o.Capabilities)))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	describeTypes(w, "", o.Events)
	for _, other := range o.Others {
		describeTypes(w, other.System+": ", other.Events)
	}
	if profile == "" {
		_, err := fmt.Fprintln(w, "\nno event types, and nothing in any list, so there is nothing to run")
		return err
	}
	_, err = fmt.Fprintf(w, "\n# a profile to start from: put it into a file and run it with --profile FILE\n%s", profile)
	return err
}

// capabilityOf describes the events capability that the server advertises.
func capabilityOf(o run.Discovery) string {
	text := "not advertised"
	if o.Capability != "" {
		text = "advertised under " + o.Capability
	}
	if o.ListChanged {
		text += ", with listChanged"
	}
	if o.NoEvents != "" {
		text += ", not listed: " + report.Clean(o.NoEvents)
	}
	return text
}

func describeTypes(w goio.Writer, system string, types []driver.EventType) {
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

// starterOf writes a profile for the event type named event, or if event is empty for
// the first by name, or if there is none for a list that is not empty. It returns ""
// if the server offers none of these.
func starterOf(t profiles.Target, o run.Discovery, event string) (string, error) {
	var names []string
	for _, of := range append([]run.SystemOffer{{System: "events", Events: o.Events}}, o.Others...) {
		types := slices.SortedFunc(slices.Values(of.Events), func(a, b driver.EventType) int { return strings.Compare(a.Name, b.Name) })
		for _, e := range types {
			if event == "" || e.Name == event {
				return starter(t, of.System, e), nil
			}
			names = append(names, report.Clean(e.Name))
		}
	}
	if event != "" {
		return "", fmt.Errorf("%w: it has no event type %q, which --event names; it has %s", run.ErrTarget, event, cmp.Or(strings.Join(slices.Compact(names), ", "), "none"))
	}
	for _, of := range systems.All() {
		if of.Starter == nil {
			continue
		}
		if lane := of.Starter(o.Abilities); lane != "" {
			return laneStarter(t, lane), nil
		}
	}
	return "", nil
}

// alone returns the target that the flags name, for commands without a profile.
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

// where returns the line of a profile that names the target.
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

// starter writes a profile for an event type, with a lane for each of its delivery
// modes.
func starter(t profiles.Target, system string, e driver.EventType) string {
	of, _ := systems.Find(system)
	spoken := ""
	if system != "events" {
		spoken = "    system: " + system + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "name: first-try\ntarget:\n  %s\nlanes:\n", where(t))
	for _, m := range []eventmeter.Mode{eventmeter.Push, eventmeter.Poll, eventmeter.Webhook} {
		if !slices.Contains(of.Modes, string(m)) || len(e.Delivery) > 0 && !slices.Contains(e.Delivery, m) {
			continue
		}
		fmt.Fprintf(&b, "  - name: %s\n%s    mode: %s\n    subscriptions: 10\n    event: %q\n    arguments: {}  # see the schema above\n", m, spoken, m, e.Name)
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

// laneStarter writes a profile around a lane to which no published event is owed.
func laneStarter(t profiles.Target, lane string) string {
	return fmt.Sprintf(`name: first-try
target:
  %s
lanes:
%s# Nothing is changed on the server, so this measures fetches and copies alone.
upstream: {kind: none}
phases: {warmup: 2s, measure: 10s, drain: 5s}
`, where(t), lane)
}
