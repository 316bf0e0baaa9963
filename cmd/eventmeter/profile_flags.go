package main

import (
	"encoding/json"
	"errors"
	"fmt"
	goio "io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eventmeter/eventmeter/internal/report"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
)

// takesProfile is the annotation of commands that take a profile as an argument, with
// the number of profiles.
const takesProfile = "eventmeter_profile"

// profileReader reads profiles by name. It keeps that of standard input, which can be
// read once.
type profileReader struct {
	in    goio.Reader
	input []byte
	read  bool
}

func (r *profileReader) get(nameOrPath string) (name string, data []byte, err error) {
	if nameOrPath != profiles.Input || !r.read {
		if name, data, err = profiles.Read(nameOrPath, r.in); err == nil && nameOrPath == profiles.Input {
			r.input, r.read = data, true
		}
		return name, data, err
	}
	return "standard input", r.input, nil
}

// shorthand is a flag that stands for an override of the profile.
type shorthand struct {
	flag, path, help string
	isText           bool
}

var shorthands = []shorthand{
	{"subscriptions", "lanes.*.subscriptions", "number of subscriptions of every lane", false},
	{"rate", "schedule.rate", "rate of the events, such as 20/s", false},
	{"duration", "phases.measure", "duration of the measured phase, such as 30s", false},
	{"event", "lanes.*.event", "event that every lane subscribes to, and that is published", true},
	{"revision", "target.revision", "revision of MCP Events that lanes send: sep-3415, sketch, longpoll or older", false},
}

// shortFlags are the flags that stand for an override.
type shortFlags map[string]*string

// add adds the flags. paths replaces what a flag stands for.
func (s *shortFlags) add(c *cobra.Command, without ...string) {
	*s = shortFlags{}
	for _, x := range shorthands {
		if slices.Contains(without, x.flag) {
			continue
		}
		(*s)[x.flag] = c.Flags().String(x.flag, "", x.help+" (default: the profile's)")
	}
	_ = c.RegisterFlagCompletionFunc("revision", fixed("sep-3415", "sketch", "longpoll", "older"))
}

// overrides returns what the flags stand for, and the flag of each override.
func (s shortFlags) overrides() (set []string, flagOf map[string]string) {
	flagOf = map[string]string{}
	for _, x := range shorthands {
		value := s[x.flag]
		if value == nil || *value == "" {
			continue
		}
		text := *value
		if x.isText {
			text = strconv.Quote(text)
		}
		set = append(set, x.path+"="+text)
		flagOf[fmt.Sprintf("override %q", set[len(set)-1])] = "--" + x.flag + " " + *value
	}
	return set, flagOf
}

// atFlags names in the problems of a profile the flags in place of the overrides that
// they stand for.
func atFlags(err error, flagOf map[string]string) error {
	var e *profiles.Error
	if errors.As(err, &e) {
		for i := range e.Problems {
			if flag := flagOf[e.Problems[i].Where]; flag != "" {
				e.Problems[i].Where = flag
			}
		}
	}
	return err
}

// profileArgument lets a command take profiles as arguments, most of them at most (0 =
// any number), in place of --profile.
func profileArgument(c *cobra.Command, most int, set func(names []string)) {
	c.Annotations = map[string]string{takesProfile: "true"}
	c.Args = cobra.ArbitraryArgs
	if most > 0 {
		c.Args = cobra.MaximumNArgs(most)
	}
	c.ValidArgsFunction = completeProfiles
	_ = c.RegisterFlagCompletionFunc("profile", completeProfiles)
	inner := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			if f := c.Flags().Lookup("profile"); f.Changed {
				return usagef("--profile and %s: name a profile in one of the two ways", args[0])
			}
			set(args)
		}
		return inner(c, args)
	}
}

// sayOverrides prints which settings of profiles come from flags and variables. It names
// no value of a flag that may hold a secret.
func (f *runFlags) sayOverrides(w goio.Writer) {
	set, _ := f.short.overrides()
	for _, o := range append(set, f.set...) {
		fmt.Fprintf(w, "set %s\n", report.Clean(o))
	}
	for _, name := range f.variables {
		fmt.Fprintf(w, "set by %s: --%s\n", variableOf(name), name)
	}
}

// fromVariables returns the flags that variables have set.
func fromVariables(c *cobra.Command) (names []string) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if isFromVariable(f) {
			names = append(names, f.Name)
		}
	})
	return names
}

// completeProfiles completes the names of built-in profiles, and files.
func completeProfiles(_ *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, p := range profiles.Builtin() {
		out = append(out, cobra.CompletionWithDesc(p.Name, p.Description))
	}
	return out, cobra.ShellCompDirectiveDefault // and files
}

// completeSet completes the paths of --set, values of it that are words, and the kinds
// of upstream.
func completeSet(c *cobra.Command) {
	if c.Flags().Lookup("upstream") != nil {
		_ = c.RegisterFlagCompletionFunc(
			"upstream",
			fixed("inject", "http", "github", "slack", "stripe", "feed", "tool", "exec", "replay", "none"),
		)
	}
	_ = c.RegisterFlagCompletionFunc("set", func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		return settingsFor(lanesOf(c, args), typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
}

// lanesOf returns the names of the lanes of the profile that a command line names.
func lanesOf(c *cobra.Command, args []string) []string {
	name := profiles.Default
	if f := c.Flags().Lookup("profile"); f != nil && f.Value.Type() == "string" {
		name = f.Value.String()
	} else if f != nil && f.Changed {
		name = strings.Trim(strings.Split(f.Value.String(), ",")[0], "[]")
	}
	if len(args) > 0 {
		name = args[0]
	}
	names := []string{"*"}
	if name == profiles.Input {
		return names
	}
	if p, err := profiles.Load(name, nil, systems.Table); err == nil {
		for _, l := range p.Lanes {
			names = append(names, l.Name)
		}
	}
	return names
}

// schemaNode is the part of a JSON Schema that completion needs.
type schemaNode struct {
	Ref         string                 `json:"$ref"`
	Description string                 `json:"description"`
	Properties  map[string]*schemaNode `json:"properties"`
	Items       *schemaNode            `json:"items"`
	Enum        []string               `json:"enum"`
	Defs        map[string]*schemaNode `json:"$defs"`
}

// settingsFor returns what can follow the text that was typed of path=value.
func settingsFor(lanes []string, typed string) (out []string) {
	var root schemaNode
	if json.Unmarshal(profiles.Schema(), &root) != nil {
		return nil // a test finds it
	}
	resolve := func(n *schemaNode) *schemaNode {
		if n != nil && n.Ref != "" {
			return root.Defs[strings.TrimPrefix(n.Ref, "#/$defs/")]
		}
		return n
	}
	path, _, isValue := strings.Cut(typed, "=")
	done, _ := path, ""
	if !isValue {
		done = path[:strings.LastIndexByte(path, '.')+1]
	}
	at, inLanes := &root, false
	for key := range strings.SplitSeq(strings.TrimSuffix(done, "."), ".") {
		switch {
		case key == "":
		case inLanes:
			at, inLanes = resolve(at.Items), false
		default:
			at = resolve(at.Properties[key])
			inLanes = key == "lanes" && done != key && at != nil && at.Items != nil
		}
		if at == nil {
			return nil
		}
	}
	switch {
	case isValue:
		for _, word := range at.Enum {
			if word != "" {
				out = append(out, path+"="+word)
			}
		}
	case inLanes:
		for _, name := range lanes {
			out = append(out, done+name+".")
		}
	default:
		for _, key := range slices.Sorted(maps.Keys(at.Properties)) {
			next, end := at.Properties[key], "="
			if to := resolve(next); to.Properties != nil || to.Items != nil && key == "lanes" {
				end = "."
			}
			out = append(out, cobra.CompletionWithDesc(done+key+end, next.Description))
		}
	}
	return out
}
