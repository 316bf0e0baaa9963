package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcpload/mcpload/internal/bench"
	"github.com/mcpload/mcpload/internal/prom"
	"github.com/mcpload/mcpload/internal/report"
	"github.com/mcpload/mcpload/profiles"
	"github.com/mcpload/mcpload/results"
)

// runFlags are the flags of the run command.
type runFlags struct {
	profiles    []string
	trials      int
	extra       extraFlags
	target      targetFlags
	upstream    string
	upstreamURL string
	record      string
	set         []string
	allowHosts  []string
	out         string
	json        bool
	quiet       bool
	plain       bool
	shards      shardFlags
	metrics     metricsFlags
	collector   *prom.Collector // of metrics; nil where there are none
}

func newRunCommand(io streams) *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run",
		Short: "Run a profile and report",
		Long: `Run opens the subscriptions of a profile, fires stamped events, waits until they
have come or the grace is over, prints one table that compares the lanes, and
writes the result to a directory. Without --target it starts the embedded
reference target as a process of its own.

With --processes the run is split among processes of this machine, to get around
the limits of one, and their results are merged. With --shard this process is one
part of a run on several machines; mcpload merge adds the parts up, and judges
the thresholds, which a shard does not.

Ctrl-C once stops firing, drains and writes a partial result; twice writes at once.

` + exitCodesHelp,
		Example: `  mcpload run
  mcpload run --profile push --set 'lanes.push.subscriptions=2000' --set phases.measure=30s
  mcpload run --target http://127.0.0.1:8080/mcp --token-file tokens.txt \
      --upstream inject --upstream-url http://127.0.0.1:8081
  mcpload run --command 'node server.js --verbose' --profile mine.yaml
  mcpload run --profile stdio
  mcpload run --profile mine.yaml --json --quiet > result.json
  mcpload run --processes 4
  mcpload run --shard 0/4 --start-at 2026-11-20T10:00:00Z --out part-0 --target http://10.0.0.9/mcp --allow-host 10.0.0.9`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runAll(c.Context(), f, io) },
	}
	fl := c.Flags()
	fl.StringArrayVarP(&f.profiles, "profile", "p", []string{"compare"}, "built-in profile or file (see mcpload profiles); several are run in turn")
	fl.IntVar(&f.trials, "trials", 1, "run this often; the trials of several profiles take turns, so that what drifts hits all alike")
	f.target.add(c)
	fl.StringVar(&f.upstream, "upstream", "", "kind of upstream: inject, http, github, slack, stripe, feed, tool, exec, replay or none (default: the profile's)")
	fl.StringVar(&f.upstreamURL, "upstream-url", "", "URL of the upstream: the admin address for inject and replay, for others where requests go")
	fl.StringVar(&f.record, "record", "", "write a trace of what is fired to this file, or, with upstream none, of what arrives")
	fl.StringArrayVar(&f.set, "set", nil, "override a value of the profile, path=value (repeatable), e.g. lanes.push.subscriptions=1000")
	fl.StringArrayVar(&f.allowHosts, "allow-host", nil, "put load on this host, which is not this machine (repeatable)")
	fl.StringVarP(&f.out, "out", "o", "", "directory for the result (default results/runs/<time>-<profile>)")
	f.shards.add(c)
	f.metrics.add(c)
	f.extra.add(c)
	fl.BoolVar(&f.json, "json", false, "print the result as JSON on standard output instead of the table")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "no progress")
	fl.BoolVar(&f.plain, "plain", false, "progress as lines of text, for logs; the default where standard error is no terminal")
	return c
}

// runAll is the run command: every profile once, or as often as there are trials.
func runAll(ctx context.Context, f runFlags, io streams) error {
	if f.trials < 1 {
		return usageError{fmt.Errorf("--trials %d: want 1 or more", f.trials)}
	}
	if f.record != "" && (f.trials > 1 || len(f.profiles) > 1) {
		return usageError{errors.New("--record takes one run: one profile, and no --trials")}
	}
	if err := f.extra.check(); err != nil {
		return err
	}
	if err := f.shards.check(f); err != nil {
		return err
	}
	if err := f.metrics.check(); err != nil {
		return err
	}
	var all []*profiles.Profile
	for _, name := range f.profiles {
		p, err := loadProfile(f, name)
		if err != nil {
			return err
		}
		all = append(all, p)
	}
	if err := distinct(all); err != nil {
		return err
	}
	ctx, stop, release := onInterrupt(ctx, io)
	defer release()
	shown, err := f.metrics.open(io, 0)
	if err != nil {
		return err
	}
	defer shown.close(ctx, stop)
	f.collector = shown.collector()
	started := time.Now().UTC().Format("20060102T150405Z")
	var worst error
	for trial := range f.trials {
		for _, p := range all {
			if f.trials > 1 && !f.quiet {
				fmt.Fprintf(io.err, "trial %d of %d, %s\n", trial+1, f.trials, p.Name)
			}
			if len(p.Cases) > 0 {
				if err := calibrate(ctx, stop, f, p, io); err != nil {
					return err
				}
				continue
			}
			err := runProfile(ctx, stop, f, p, f.dir(started, p.Name, trial), io)
			if exitCode(err) == exitInterrupted {
				return err
			}
			if worst == nil {
				worst = err
			}
		}
	}
	return worst
}

// distinct refuses two profiles of one name: their results would be mixed up.
func distinct(all []*profiles.Profile) error {
	seen := map[string]bool{}
	for _, p := range all {
		if seen[p.Name] {
			return usageError{fmt.Errorf("--profile: two profiles are named %s; rename one", p.Name)}
		}
		seen[p.Name] = true
	}
	return nil
}

// dir is where one run is written: trials of one profile stand side by side in
// a directory of their own, which mcpload compare takes as one side.
func (f *runFlags) dir(started, profile string, trial int) string {
	dir := f.out
	switch {
	case dir == "":
		dir = filepath.Join("results", "runs", started+"-"+profile)
	case len(f.profiles) > 1:
		dir = filepath.Join(dir, profile)
	}
	if f.trials > 1 {
		dir = filepath.Join(dir, fmt.Sprintf("trial-%03d", trial+1))
	}
	return dir
}

// runProfile runs one profile once and writes its result to dir.
func runProfile(ctx context.Context, stop <-chan struct{}, f runFlags, p *profiles.Profile, dir string, io streams) error {
	// Before the run, so that half an hour of measuring does not end in an
	// error about a path.
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the directory for the result: %w; choose another with --out", err)
	}
	options := bench.Options{
		Profile: p, AllowHosts: f.allowHosts, Embedded: startEmbedded, EmbeddedCommand: embeddedCommand, Stop: stop, Version: version(), Collector: f.collector,
	}
	var trace *traceFile
	if f.record != "" {
		var err error
		if trace, err = newTraceFile(f.record); err != nil {
			return err
		}
		defer trace.discard()
		options.Record = trace.file
	}
	view := newView(io.err, p, f.quiet, f.plain)
	options.Progress = view.update
	outcome, runErr := f.shards.run(ctx, options, dir)
	view.close()
	if outcome == nil {
		_ = os.Remove(dir) // only if it is still empty
		return runErr
	}
	out := io.out
	var err error
	if f.json {
		err = outcome.Result.Write(out)
		out = io.err // for what is not the result
	} else {
		err = report.Text(out, outcome.Result)
	}
	if err == nil {
		err = archive(dir, outcome)
	}
	if err == nil {
		err = f.extra.write(outcome.Result, out)
	}
	if err == nil && trace != nil {
		err = trace.keep(outcome, io)
	}
	if err == nil && !f.json {
		fmt.Fprintf(out, "\nresult in %s\n", dir)
	}
	if outcome.Part != nil && runErr == nil {
		return err // the whole is judged, not a shard
	}
	return verdict(outcome.Result, runErr, err)
}

// verdict chooses what the run ends with: the failure to finish first, then a
// failure to write, then whether the figures can be trusted, then whether they
// are good.
func verdict(r *results.Result, runErr, writeErr error) error {
	if runErr != nil || writeErr != nil {
		return errors.Join(runErr, writeErr)
	}
	if r.Instrument.Bottleneck {
		return errBottleneck
	}
	if slices.ContainsFunc(r.Thresholds, func(v results.Verdict) bool { return !v.Passed }) {
		return errThreshold
	}
	return nil
}

// loadProfile reads the profile with all overrides of the command line.
func loadProfile(f runFlags, name string) (*profiles.Profile, error) {
	set := slices.Clone(f.set)
	if f.upstream != "" {
		set = append(set, "upstream.kind="+f.upstream)
	}
	if f.upstreamURL != "" {
		key := "upstream.admin="
		switch f.upstream {
		case "http", "github", "slack", "stripe":
			key = "upstream." + f.upstream + ".url="
		}
		set = append(set, key+f.upstreamURL)
	}
	if f.target.url != "" {
		set = append(set, "target.url="+f.target.url)
	}
	over, err := f.target.commandOverride()
	if err != nil {
		return nil, err
	}
	p, err := profiles.Load(name, append(set, over...))
	if err != nil {
		return nil, usageError{err}
	}
	if err := f.target.apply(&p.Target); err != nil {
		return nil, err
	}
	return p, nil
}

// targetFlags are the flags that say where a server is and how it is met.
type targetFlags struct {
	url       string
	command   string
	headers   []string
	tokens    []string
	tokenFile string
}

func (t *targetFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVarP(&t.url, "target", "t", "", "URL of the MCP endpoint")
	fl.StringVar(&t.command, "command", "", "instead of --target: a program that speaks MCP over standard input and output, with its arguments")
	fl.StringArrayVarP(&t.headers, "header", "H", nil, "header of every request, 'Name: value' (repeatable)")
	fl.StringArrayVar(&t.tokens, "token", nil, "bearer token, one principal each (repeatable)")
	fl.StringVar(&t.tokenFile, "token-file", "", "file of bearer tokens, one principal a line")
}

// commandOverride is the override that --command stands for.
func (t *targetFlags) commandOverride() ([]string, error) {
	if t.command == "" {
		return nil, nil
	}
	if t.url != "" {
		return nil, usageError{errors.New("--target and --command: give one of the two")}
	}
	text, err := json.Marshal(t.command) // which is YAML, too
	return []string{"target.command=" + string(text)}, err
}

// apply puts the flags over what the profile says.
func (t *targetFlags) apply(p *profiles.Target) error {
	for _, h := range t.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return usageError{fmt.Errorf("--header %q: want 'Name: value'", h)}
		}
		if p.Headers == nil {
			p.Headers = map[string]string{}
		}
		p.Headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	file := p.TokenFile
	if t.tokenFile != "" {
		file = t.tokenFile
	}
	if file != "" {
		tokens, err := readTokens(file)
		if err != nil {
			return usageError{err}
		}
		p.Tokens = append(p.Tokens, tokens...)
	}
	p.Tokens = append(p.Tokens, t.tokens...)
	return nil
}

func readTokens(name string) ([]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("token file: %w", err)
	}
	defer f.Close()
	var tokens []string
	s := bufio.NewScanner(f)
	for s.Scan() {
		if line := strings.TrimSpace(s.Text()); line != "" && !strings.HasPrefix(line, "#") {
			tokens = append(tokens, line)
		}
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("token file %s: %w", name, err)
	}
	if len(tokens) == 0 {
		return nil, fmt.Errorf("token file %s holds no token; put one on each line", name)
	}
	return tokens, nil
}

// onInterrupt gives a channel that is closed by the first interrupt and a
// context that is cancelled by the second. release ends the watching.
func onInterrupt(ctx context.Context, io streams) (context.Context, <-chan struct{}, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := make(chan struct{})
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		select {
		case <-io.interrupts:
			fmt.Fprintln(io.err, "\nstopping: no more events are fired; again to write the result at once")
			close(stop)
		case <-ctx.Done():
			return
		}
		select {
		case <-io.interrupts:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, stop, func() {
		cancel()
		<-watching
	}
}

// untilInterrupt gives a context that the first interrupt cancels.
func untilInterrupt(ctx context.Context, io streams) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		select {
		case <-io.interrupts:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel()
		<-watching
	}
}

// archive writes what a run leaves behind.
func archive(dir string, o *bench.Outcome) error {
	err := results.Save(dir, o.Result, o.Accounts)
	if err == nil {
		err = results.WriteFile(filepath.Join(dir, "report.txt"), func(w io.Writer) error { return report.Text(w, o.Result) })
	}
	if err == nil {
		err = writePage(dir)
	}
	if err == nil && o.Part != nil {
		err = results.SavePart(dir, o.Part)
	}
	if err != nil {
		return fmt.Errorf("%w; the figures above are not saved: free some space or choose another --out, and run again", err)
	}
	return nil
}
