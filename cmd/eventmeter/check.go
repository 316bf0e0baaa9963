package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/check"
	"github.com/eventmeter/eventmeter/internal/report"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

// rowCheck are the flags of the check command.
type rowCheck struct {
	run           runFlags // the flags shared with the run command
	profile       string
	event         string
	arguments     string
	subscriptions int
	rate          string
	denied        string
	hostile       bool
	measure       time.Duration
	limit         time.Duration
	format        formatFlags
}

func newCheckCommand(io streams) *cobra.Command {
	f := rowCheck{
		run:     runFlags{reader: &profileReader{in: io.in}},
		profile: "check", arguments: "{}", subscriptions: 5000, measure: 35 * time.Second, limit: 5 * time.Minute,
	}
	c := &cobra.Command{
		Use:   "check [PROFILE]",
		Short: "Judge a server by the rows of conformance, at rest and under load",
		Long: `Check judges a server of MCP Events by the rows of docs/conformance.md. It opens a few
subscriptions in each mode that the event type has, and sends what no client sends
by accident, such as bad secrets, stale cursors and wrong echoes of challenges. Then
it does the same beside many subscriptions, and prints both verdicts of each row.
Rows that were held at rest and broken under load come first. Without --target it
checks the embedded reference server.

The event type is that of --event or of the profile. If only the target is given, it is
the first event type by name that needs no arguments. Some rows need events that are
published during the check: say with --upstream how, as for eventmeter run. A step that
a server may take for an attack is not sent to another machine without --allow-hostile.
A check ends within --limit, and prints what it has found until then.

` + exitCodesHelp,
		Example: `  eventmeter check
  eventmeter check --target http://127.0.0.1:8080/mcp --token a --token b --upstream-url http://127.0.0.1:8081
  eventmeter check --target https://example.com/mcp --allow-host example.com --event ticket.moved \
      --arguments '{"board": "b3"}' --subscriptions 500 --format json > check.json`,
		RunE: func(c *cobra.Command, _ []string) error { return runCheck(c.Context(), &f, io) },
	}
	addFlags(c, []flagSpec{
		{
			&f.profile, "profile,p",
			"built-in profile, file, or - for standard input, the same as the argument; its lanes are those at rest",
		},
		{&f.event, "event,e", "event type to check, instead of the profile's; nothing is published unless --upstream says how"},
		{&f.arguments, "arguments", "arguments of the subscriptions to --event, a JSON object"},
		{&f.run.upstream, "upstream", "kind of upstream (default: the profile's)"},
		{&f.run.upstreamURL, "upstream-url", "URL of the upstream, as for eventmeter run"},
		{&f.subscriptions, "subscriptions", "subscriptions under load, of all modes together"},
		{&f.rate, "rate", "rate of events under load, such as 20/s (default: the profile's)"},
		{&f.denied, "denied", "event type, and a JSON object of arguments, that the first principal may not subscribe to"},
		{&f.measure, "duration", "how long each of the two parts takes at least"},
		{&f.limit, "limit", "how long the check may take, 1m to 1h"},
		{&f.hostile, "allow-hostile", "send steps that a server may take for an attack, also to another machine"},
	})
	profileArgument(c, 1, func(names []string) { f.profile = names[0] })
	f.run.addCommon(c, "")
	f.format.add(c, formatText, formatJSON, formatJUnit)
	return c
}

// runCheck is the check command.
func runCheck(ctx context.Context, f *rowCheck, io streams) error {
	if err := f.format.check(); err != nil {
		return err
	}
	p, err := f.load()
	if err != nil {
		return err
	}
	o, err := f.options(p)
	if err != nil {
		return err
	}
	ctx, stop, release := onInterrupt(ctx, io)
	defer release()
	o.Run.Stop = stop
	if !p.Target.IsEmbedded() {
		bare, err := f.fit(ctx, p)
		if bare != nil {
			return f.print(bare, io, checkVerdict(bare, nil))
		}
		if err != nil {
			return err
		}
	}
	o.AllowHostile = f.hostile || p.Target.IsEmbedded() || f.local(ctx, p)
	if !f.run.quiet {
		o.Entered = func(stage string) { fmt.Fprintf(io.err, "checking %s\n", stage) }
	}
	c, runErr := check.Run(ctx, o)
	if c == nil {
		return runErr
	}
	return f.print(c, io, checkVerdict(c, runErr))
}

// local reports whether the target is on this machine.
func (f *rowCheck) local(ctx context.Context, p *profiles.Profile) bool {
	return len(p.Target.Command) > 0 || run.CheckHost(ctx, nil, p.Target.URL, "target", nil) == nil
}

// print prints a check, and returns verdict unless that fails.
func (f *rowCheck) print(c *results.Check, io streams, verdict error) error {
	err := f.format.all(io, rendering{
		formatText:  reportOf(report.Check, c),
		formatJSON:  c.Write,
		formatJUnit: reportOf(report.CheckJUnit, c),
	})
	if err != nil {
		return err
	}
	return verdict
}

// The verdicts on a check.
var (
	errRow   = fmt.Errorf("a row that quotes a MUST is broken: %w", errThreshold)
	errEarly = fmt.Errorf("the check ended early, so rows may be missing: %w", errUnjudged)
)

// checkVerdict returns the error that decides the exit code.
func checkVerdict(c *results.Check, runErr error) error {
	if runErr != nil {
		return runErr
	}
	if c.Must > 0 {
		return errRow
	}
	for _, s := range c.Stages {
		if s.Ended != "" {
			return errEarly
		}
	}
	if len(c.Stages) == 2 && len(c.Stages[1].Bottleneck) > 0 {
		return errBottleneck
	}
	return nil
}

// anyEvent stands for an event type that the target offers.
const anyEvent = "-"

// load reads the profile, or makes that of --event. A target of which only the address
// is known is checked with an event type of its own.
func (f *rowCheck) load() (*profiles.Profile, error) {
	named := f.run.target.url != "" || f.run.target.command != ""
	if f.event == "" && named && f.profile == "check" && !f.publishes() {
		f.event = anyEvent
	}
	if f.event == "" {
		p, err := loadProfile(f.run, f.profile)
		if err != nil {
			return nil, err
		}
		if len(p.Cases) > 0 {
			return nil, usagef("--profile %s: a profile with cases cannot be checked", f.profile)
		}
		if t := &p.Target; t.IsEmbedded() && !t.OverStdio() && len(t.Tokens) == 0 && !t.OAuth.Used() {
			t.Tokens = []string{"checker", "another"} // it accepts any
		}
		return p, nil
	}
	if !named {
		return nil, usagef("--event is for a server of --target or --command; the embedded one is checked without it")
	}
	if err := isObject("--arguments", f.arguments); err != nil {
		return nil, err
	}
	text := "name: check\nlanes:\n"
	for _, mode := range []eventmeter.Mode{eventmeter.Push, eventmeter.Poll, eventmeter.Webhook} {
		text += fmt.Sprintf(
			"  - {name: %s, mode: %s, subscriptions: 3, event: %s, arguments: %s}\n",
			mode,
			mode,
			strconv.Quote(f.event),
			f.arguments,
		)
	}
	text += "phases: {ready: 1m, warmup: 0, drain: 5s}\n"
	if !f.publishes() {
		text += "upstream: {kind: none}\n"
	} else {
		text += "upstream: {kind: " + cmp.Or(f.run.upstream, "inject") + "}\nschedule: {kind: constant, rate: 2/s}\n"
	}
	return f.parse(text)
}

// publishes reports whether a flag says how events are published.
func (f *rowCheck) publishes() bool {
	return f.run.upstream != "" || f.run.upstreamURL != "" ||
		slices.ContainsFunc(f.run.set, func(s string) bool { return strings.HasPrefix(s, "upstream.") })
}

// parse reads a profile with the overrides of the command line.
func (f *rowCheck) parse(text string) (*profiles.Profile, error) {
	set := slices.Clone(f.run.set)
	if f.run.upstreamURL != "" {
		o, err := upstreamURLOf(cmp.Or(f.run.upstream, "inject"), f.run.upstreamURL)
		if err != nil {
			return nil, usageError{err}
		}
		set = append(set, o)
	}
	return f.run.target.profile("check", text, set...)
}

func isObject(flag, text string) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &object); err != nil || object == nil {
		return usagef("%s %s: want a JSON object, such as '{\"channel\": \"c\"}'", flag, text)
	}
	return nil
}

// options returns the options of a check, without those that depend on the target.
func (f *rowCheck) options(p *profiles.Profile) (check.Options, error) {
	o := check.Options{
		Run:           f.run.options(p, nil),
		Subscriptions: f.subscriptions,
		Least:         f.measure,
		Limit:         f.limit,
	}
	switch {
	case f.limit < time.Minute || f.limit > time.Hour:
		return o, usagef("--limit %v: want 1m to 1h", f.limit)
	case f.measure < time.Second || f.measure > f.limit/3:
		return o, usagef("--duration %v: want 1s to a third of --limit, %v", f.measure, f.limit/3)
	case f.subscriptions < 1 || f.subscriptions > p.Limits.Subscriptions:
		return o, usagef("--subscriptions %d: want 1 to %d, the profile's limits.subscriptions", f.subscriptions, p.Limits.Subscriptions)
	case p.Target.Revision == string(mcpclient.Older):
		return o, usagef("target.revision older has other rules than those of conformance; set another")
	case slices.ContainsFunc(p.Lanes, func(l profiles.Lane) bool { return l.System != "events" }):
		return o, usagef("--profile %s: a check is for lanes of the system events alone", f.profile)
	}
	if f.rate != "" {
		rate, err := profiles.ParseRate(f.rate)
		if err != nil || rate <= 0 || rate > p.Limits.Rate {
			return o, usagef("--rate %s: want a rate up to %v, the profile's limits.rate, such as 20/s", f.rate, p.Limits.Rate)
		}
		if p.Upstream.Kind == "none" || p.Schedule.Kind != "constant" && p.Schedule.Kind != "poisson" {
			return o, usagef("--rate is for an upstream that publishes on a schedule of kind constant or poisson")
		}
		o.Rate = rate
	}
	event, args, _ := strings.Cut(f.denied, " ")
	if p.Target.IsEmbedded() && f.denied == "" {
		event, args = "private.note", `{"principal": "somebody else"}`
	}
	args = cmp.Or(strings.TrimSpace(args), "{}")
	if err := isObject("--denied", args); err != nil {
		return o, err
	}
	o.Denied = check.Denied{Event: event, Arguments: json.RawMessage(args)}
	return o, nil
}

// fit takes away the lanes of modes that the target does not offer. If it offers no
// events at all, it returns what that shows.
func (f *rowCheck) fit(ctx context.Context, p *profiles.Profile) (*results.Check, error) {
	offer, err := run.DiscoverTarget(ctx, p.Target, f.run.allowHosts, version())
	if len(offer.Events) == 0 && offer.Conform["fallback-method-not-found"].Seen > 0 {
		now := time.Now().UTC()
		c := &results.Check{
			Schema:   results.CheckSchema,
			Version:  version(),
			Started:  now,
			Finished: now,
			Target:   results.Target{URL: p.Target.URL},
			Stages:   []results.CheckStage{{Name: results.CheckStages[0]}},
		}
		c.Judge(results.CheckSeen{Account: offer.Conform}, results.CheckSeen{})
		return c, nil
	}
	if offer.Conform.Broken() && (err != nil || len(offer.Events) == 0) {
		return nil, nil // the check says what the list breaks
	}
	if err != nil || len(offer.Events) == 0 {
		return nil, err
	}
	var names []string
	for _, e := range offer.Events {
		names = append(names, report.Clean(e.Name))
	}
	slices.Sort(names)
	var kept []profiles.Lane
	for _, l := range p.Lanes {
		if l.Event == anyEvent {
			if l.Event = withoutArguments(offer.Events); l.Event == "" {
				return nil, usagef("each event type of the target needs arguments; give one with --event and --arguments: %s",
					strings.Join(names, ", "))
			}
		}
		e, ok := offer.Event(l.Event)
		if !ok && offer.Conform.Broken() {
			return nil, nil // the same
		}
		if !ok {
			return nil, fmt.Errorf(
				"%w: it does not offer %q; choose one of its event types with --event: %s",
				run.ErrTarget,
				l.Event,
				strings.Join(names, ", "),
			)
		}
		if len(e.Delivery) == 0 || slices.Contains(e.Delivery, eventmeter.Mode(l.Mode)) {
			kept = append(kept, l)
		}
	}
	if len(kept) == 0 {
		return nil, fmt.Errorf("%w: it offers %s in no mode that the profile has a lane for", run.ErrTarget, report.Clean(p.Lanes[0].Event))
	}
	p.Lanes = kept
	return nil, nil
}

// withoutArguments returns the first event type by name that needs no arguments; "" =
// there is none.
func withoutArguments(types []driver.EventType) (name string) {
	for _, e := range types {
		var schema struct {
			Required []string `json:"required"`
		}
		_ = json.Unmarshal(e.InputSchema, &schema) // what is odd requires nothing
		if len(schema.Required) == 0 && (name == "" || e.Name < name) {
			name = e.Name
		}
	}
	return name
}
