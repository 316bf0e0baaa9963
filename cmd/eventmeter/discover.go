package main

import (
	"context"
	"encoding/json"
	"fmt"
	goio "io"
	"strings"
	"text/tabwriter"

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
	write      string
	publish    string
	format     formatFlags
}

func newDiscoverCommand(io streams) *cobra.Command {
	var f discoverFlags
	c := &cobra.Command{
		Use:   "discover {--target URL | --command 'PROGRAM ARGS'}",
		Short: "Show what a server offers, and print a profile for it",
		Long: `Discover connects to a server and shows what it offers: its protocol era, its event types
with their delivery modes, and a profile to start from.

It prints the protocol era and versions, the
capabilities, its event types with their delivery modes and schemas, the
features of the other systems that it supports
(` + strings.Join(systems.Offers(), ", ") + `),
and a profile to start from: for the event type that --event names, otherwise
for the first by name, otherwise for resources that clients can subscribe to, otherwise
for a list. It names the revision of MCP Events that
the server speaks, and each deviation from it. To find deviations, discover polls, and
ends a subscription that does not exist. It also works
with a server that answers events/list without advertising the capability, and
with a server that has only lists.

With --publish-with, the profile publishes events: by a request to a URL, or by calling a
tool of the server. Discover then subscribes, publishes one event, and says whether it
arrived. The body of the request, or the arguments of the tool, are made from the schemas
of the server, or given after the URL or the name as a JSON object, in which {{.Probe}} is
the text that comes back to the subscribers. Without --publish-with discover subscribes to
nothing, and the profile publishes nothing, unless a tool seems to write the resources.

With --write, discover writes the profile to a file, which eventmeter run runs as it is.
Secrets are not written: give --token again, or set EVENTMETER_TOKEN.`,
		Example: `  eventmeter discover --target http://127.0.0.1:8080/mcp --token secret
  eventmeter discover --target http://127.0.0.1:3000/mcp --write mine.yaml \
      --publish-with 'http://127.0.0.1:9000/publish {"message": "{{.Probe}}"}'
  eventmeter discover --target http://127.0.0.1:3000/mcp --publish-with write_note --write mine.yaml
  eventmeter run mine.yaml
  eventmeter discover --command 'eventmeter serve --stdio'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return discover(c.Context(), f, io) },
	}
	f.target.add(c)
	addFlags(c, []flagSpec{
		{&f.allowHosts, "allow-host", "connect to this host, which is not this machine (repeatable)"},
		{&f.event, "event", "event type that the profile is for (default: the first by name)"},
		{&f.write, "write", "write the profile to this file, which must not exist"},
		{
			&f.publish, "publish-with",
			"what makes the server publish an event: a URL that a request is sent to, or a tool of the server, " +
				"and after a space its body; one event is tried (default: nothing is published)",
		},
	})
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
	ctx, release := until(ctx, io.interrupts)
	defer release()
	offer, err := run.DiscoverTarget(ctx, t, f.allowHosts, version())
	if err != nil {
		return err
	}
	profile, err := f.starterOf(t, offer)
	if err != nil {
		return err
	}
	if f.write != "" {
		if err := f.writeStarter(profile.text, io); err != nil {
			return err
		}
	}
	err = f.format.all(io, rendering{
		formatText: func(w goio.Writer) error {
			if f.write != "" {
				return nil // the file has it
			}
			return describe(w, offer, profile.text)
		},
		formatJSON: indented(offer),
	})
	if err != nil || profile.text == "" {
		return err
	}
	if f.publish != "" {
		if err := f.try(ctx, profile.text, io); err != nil {
			return err
		}
	}
	fmt.Fprintf(io.err, "next: %s\n", f.next(profile))
	return nil
}

// indented writes v as JSON for people and programs.
func indented(v any) func(goio.Writer) error {
	return func(w goio.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	}
}

func describe(w goio.Writer, o run.Discovery, profile string) error {
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
	_, err := fmt.Fprintf(w, "\n# a profile to start from; --write FILE writes it\n%s", profile)
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

// alone returns the target that the flags name, for commands without a profile.
func (t *targetFlags) alone() (profiles.Target, error) {
	if t.url == "" && t.command == "" {
		return profiles.Target{}, usagef("give the server with --target URL or --command 'PROGRAM ARGS'")
	}
	if _, err := t.commandOverride(); err != nil {
		return profiles.Target{}, err
	}
	out := profiles.Target{URL: t.url}
	if t.command != "" {
		var err error
		if out.Command, err = profiles.SplitCommand(t.command); err != nil {
			return profiles.Target{}, usagef("--command: %w", err)
		}
	}
	return out, t.apply(&out)
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
