package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eventmeter/eventmeter/internal/metrics"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

// runFlags are the flags of the run command.
type runFlags struct {
	profiles    []string
	trials      int
	output      outputFlags
	target      targetFlags
	upstream    string
	upstreamURL string
	against     againstFlags
	record      string
	set         []string
	short       shortFlags
	reader      *profileReader
	until       []string
	allowHosts  []string
	out         string
	name        string
	quiet       bool
	verbose     bool
	variables   []string // the flags that variables have set
	plain       bool
	shards      shardFlags
	metrics     metricsFlags
	ofTarget    string             // URL of the target's metrics
	collector   *metrics.Collector // of metrics; nil where there are none
}

// The help of flags that several commands have.
const (
	setHelp   = "override a value of the profile, path=value (repeatable)"
	plainHelp = "progress as lines of text, for logs; the default where standard error is no terminal"
)

// addMeasured adds the flags that run and capacity share.
func (f *runFlags) addMeasured(c *cobra.Command) {
	addFlags(c, []flagSpec{
		{
			&f.ofTarget, "target-metrics",
			"URL of the target's metrics in Prometheus' text format, used instead of its process, such as for a target on another machine",
		},
		{
			&f.name, "name",
			fmt.Sprintf("name for the result, its pages and its metrics: up to %d letters, digits, spaces and . _ - + # @", results.LongestName),
		},
	})
	f.metrics.add(c)
}

// addCommon adds the flags of all commands that put load on a target, when the command has its
// others. example is added to the help of --set.
func (f *runFlags) addCommon(c *cobra.Command, example string) {
	f.target.add(c)
	addFlags(c, []flagSpec{
		{&f.set, "set", setHelp + example},
		{&f.allowHosts, "allow-host", "put load on this host, which is not this machine (repeatable)"},
		{&f.quiet, "quiet,q", "no progress"},
	})
	completeSet(c)
}

// options returns the options of a run that come from flags.
func (f *runFlags) options(p *profiles.Profile, stop <-chan struct{}) run.Options {
	return run.Options{
		Profile:         p,
		AllowHosts:      f.allowHosts,
		Embedded:        startEmbedded,
		EmbeddedCommand: embeddedCommand,
		Stop:            stop,
		Version:         version(),
		Name:            f.name,
		Collector:       f.collector,
		TargetMetrics:   f.ofTarget,
	}
}

// checkName refuses a name that is given and cannot be one.
func (f *runFlags) checkName() error {
	if f.name == "" {
		return nil
	}
	if err := results.CheckName(f.name); err != nil {
		return usagef("--name: %w", err)
	}
	return nil
}

// loadAll reads the profiles that are run in turn.
func (f *runFlags) loadAll() ([]*profiles.Profile, error) {
	var all []*profiles.Profile
	for _, name := range f.profiles {
		p, err := loadProfile(*f, name)
		if err != nil {
			return nil, err
		}
		if len(p.Cases) > 0 {
			if err := f.checkCalibration(); err != nil {
				return nil, err
			}
		}
		all = append(all, p)
	}
	return all, distinct(all)
}

// named adds to an error the run that it came from, if there are several.
func (f *runFlags) named(err error, profile string, trial int) error {
	switch {
	case err == nil, f.trials == 1 && len(f.profiles) == 1:
		return err
	case f.trials == 1:
		return fmt.Errorf("%s: %w", profile, err)
	}
	return fmt.Errorf("%s, trial %d: %w", profile, trial+1, err)
}

// distinct refuses two profiles with the same name, because their results would be
// mixed up.
func distinct(all []*profiles.Profile) error {
	seen := map[string]bool{}
	for _, p := range all {
		if seen[p.Name] {
			return usagef("--profile: two profiles are named %s; rename one", p.Name)
		}
		seen[p.Name] = true
	}
	return nil
}

// directories returns the directory for the runs of each profile. The directory of
// --out is locked as a whole, and refused if it already holds a result. The caller
// must call release, even after an error.
func (f *runFlags) directories(all []*profiles.Profile) (dirs []string, release func(), err error) {
	var taken []*outDir
	release = func() {
		for _, d := range taken {
			d.release()
		}
	}
	if f.out != "" {
		d, err := takeOut(f.out)
		if err != nil {
			return nil, release, err
		}
		taken = append(taken, d)
	}
	for _, p := range all {
		dir := f.out
		switch {
		case len(p.Cases) > 0: // a calibration leaves no archive
		case f.out == "":
			d, err := newOut(defaultOut(p.Name))
			if err != nil {
				return nil, release, err
			}
			taken = append(taken, d)
			dir = d.path
		default:
			if len(all) > 1 {
				dir = filepath.Join(f.out, p.Name)
			}
			if err := checkOut(dir); err != nil {
				return nil, release, err
			}
		}
		dirs = append(dirs, dir)
	}
	return dirs, release, nil
}

// dir returns the directory of one run. Trials of one profile stand side by side in a
// directory of their own, which eventmeter compare takes as one side.
func (f *runFlags) dir(dir string, trial int) string {
	if f.trials > 1 {
		dir = filepath.Join(dir, fmt.Sprintf("trial-%03d", trial+1))
	}
	return dir
}

// loadProfile reads the profile with all overrides from the command line.
func loadProfile(f runFlags, name string) (*profiles.Profile, error) {
	if err := checkSet(f.set); err != nil {
		return nil, err
	}
	short, flagOf := f.short.overrides()
	set := append(short, f.set...) // which names a lane
	if f.upstream != "" {
		set = append(set, "upstream.kind="+f.upstream)
	}
	if len(f.until) > 0 {
		quoted := make([]string, len(f.until))
		for i, text := range f.until {
			quoted[i] = strconv.Quote(text)
		}
		set = append(set, "phases.until=["+strings.Join(quoted, ", ")+"]")
	}
	if f.target.url != "" {
		set = append(set, "target.url="+f.target.url)
	}
	over, err := f.target.commandOverride()
	if err != nil {
		return nil, err
	}
	set = append(set, over...)
	label, data, err := f.reader.get(name)
	if err != nil {
		return nil, usageError{err}
	}
	kind, event, err := profiles.UpstreamOf(label, data, set)
	if err != nil {
		return nil, usageError{atFlags(err, flagOf)}
	}
	if of := f.short["event"]; of != nil && *of != "" && event != "" {
		set = append(set, "upstream.event="+strconv.Quote(*of)) // the lanes subscribe to what is published
	}
	if f.upstreamURL != "" {
		o, err := upstreamURLOf(kind, f.upstreamURL)
		if err != nil {
			return nil, usageError{err}
		}
		set = append(set, o)
	}
	p, err := profiles.Parse(label, data, set, systems.Table)
	if err != nil {
		return nil, usageError{atFlags(err, flagOf)}
	}
	if err := f.target.apply(&p.Target); err != nil {
		return nil, err
	}
	return p, nil
}

// checkSet refuses a --set of a key without its path, if a flag stands for it.
func checkSet(set []string) error {
	for _, text := range set {
		path, value, _ := strings.Cut(text, "=")
		for _, x := range shorthands {
			if path = strings.TrimSpace(path); path == x.flag || strings.HasSuffix(x.path, "."+path) {
				return usagef("--set %s: %s has no path; write --%s %s, or --set '%s=%s'", text, path, x.flag, value, x.path, value)
			}
		}
	}
	return nil
}

// upstreamURLOf returns the override for --upstream-url of a kind of upstream.
func upstreamURLOf(kind, url string) (string, error) {
	switch kind {
	case "inject", "replay":
		return "upstream.admin=" + url, nil
	case "http", "github", "slack", "stripe":
		return "upstream." + kind + ".url=" + url, nil
	}
	return "", fmt.Errorf(
		"--upstream-url: an upstream of kind %s has no URL; remove the flag, or choose another kind with --upstream",
		kind,
	)
}
