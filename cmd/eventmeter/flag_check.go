package main

import (
	"errors"
	"fmt"
	goio "io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eventmeter/eventmeter/profiles"
)

// flagRule says beside which flags, or without which one, a flag has no effect.
type flagRule struct {
	flag    string
	command string   // the only one in which the rule holds; "" = all that have the flag
	needs   string   // flag has no effect without it; "" = none
	not     []string // flag has no effect beside any of these
}

// flagRules are the rules that no command checks by itself.
var flagRules = []flagRule{
	{flag: "metrics-linger", needs: "metrics"},
	{flag: "pprof", needs: "metrics"},
	{flag: "remote-write-every", needs: "remote-write"},
	{flag: "otlp-every", needs: "otlp"},
	{flag: "arguments", command: "check", needs: "event"},
	{flag: "event", command: "check", not: []string{"profile"}},
	{flag: "plain", not: []string{"quiet"}},
	{flag: "verbose", not: []string{"quiet"}},
	{flag: "tls-addr", needs: "tls"},
	{flag: "allow-host", command: "serve", needs: "feed"},
	{flag: "callback-insecure", not: []string{"callback-ca"}},
	{flag: "stdio", not: []string{"addr", "tls", "proxies-may-buffer", "sse-answers", "token"}},
}

// mayBeEmpty are flags that may be empty, because the environment variable that they
// are set from may not be set; they then have no effect.
var mayBeEmpty = map[string]bool{"annotate": true}

// checkFlags refuses empty flags, which mostly come from a variable that is not set,
// numbers that are not finite, and flags that would have no effect.
func checkFlags(c *cobra.Command) error {
	var errs []error
	c.Flags().Visit(func(f *pflag.Flag) {
		empty := f.Value.Type() == "string" && f.Value.String() == ""
		if list, ok := f.Value.(pflag.SliceValue); ok {
			for _, v := range list.GetSlice() {
				empty = empty || v == ""
			}
		}
		if f.Value.Type() == "float64" {
			if v, err := strconv.ParseFloat(f.Value.String(), 64); err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
				errs = append(errs, fmt.Errorf("--%s %s: want a finite number", f.Name, f.Value))
			}
		}
		if empty && !mayBeEmpty[f.Name] {
			errs = append(errs, fmt.Errorf("--%s is empty: give it a value, or remove it", f.Name))
		}
	})
	for _, r := range flagRules {
		if r.command != "" && r.command != c.Name() || !c.Flags().Changed(r.flag) {
			continue
		}
		if isFromVariable(c.Flags().Lookup(r.flag)) {
			continue // it is set for other commands, too
		}
		if r.needs != "" && !c.Flags().Changed(r.needs) {
			errs = append(errs, fmt.Errorf("--%s does nothing without --%s: give both, or neither", r.flag, r.needs))
		}
		for _, other := range r.not {
			if c.Flags().Changed(other) {
				errs = append(errs, fmt.Errorf("--%s and --%s: give one of the two", r.flag, other))
			}
		}
	}
	if len(errs) > 0 {
		return usageError{errors.Join(errs...)}
	}
	return nil
}

// checkToken refuses text that cannot be sent as a bearer token. The error does not
// contain the token, because all of it but a line end may be a valid secret.
func checkToken(where, token string) error {
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("%s: not a bearer token; give printable ASCII without spaces", where)
	}
	return nil
}

// checkHeader refuses text that cannot be a header of a request.
func checkHeader(name, value string) error {
	if strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r) }) {
		return fmt.Errorf("--header: %q cannot be a header; use letters, digits and hyphens", name)
	}
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 127 }) {
		return fmt.Errorf("--header %s: its value holds a line break or another control character; write it on one line", name)
	}
	return nil
}

// Each flag can be set by a variable, --upstream-url by EVENTMETER_UPSTREAM_URL. A flag
// of the command line takes precedence over variables, and a variable over the profile.
const variablePrefix = "EVENTMETER_"

func variableOf(flag string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromVariable marks a flag that a variable has set.
const fromVariable = "eventmeter_variable"

// alternatives are flags that say the same in different ways. A flag of one of them on
// the command line has the variables of the others ignored.
var alternatives = [][]string{
	{"target", "command"}, {"against", "against-command"}, {"token", "token-file"}, {"processes", "shard"}, {"quiet", "verbose", "plain"},
}

// takeEnvironment returns the variables that set flags of any command, and removes them
// from the environment of this process: the processes that it starts, such as targets and
// shards, are told by their own arguments, and secrets are not theirs.
func takeEnvironment(root *cobra.Command, environment []string) map[string]string {
	known := flagNames(root)
	taken := map[string]string{}
	for _, entry := range environment {
		name, value, _ := strings.Cut(entry, "=")
		if known[name] == "" {
			continue
		}
		if value != "" {
			taken[name] = value
		}
		_ = os.Unsetenv(name) // fails only for a name that no variable can have
	}
	return taken
}

// flagNames returns the flags of all commands by their variables.
func flagNames(c *cobra.Command) map[string]string {
	all := map[string]string{}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !isMeta(f.Name) {
			all[variableOf(f.Name)] = f.Name
		}
	})
	for _, sub := range c.Commands() {
		maps.Copy(all, flagNames(sub))
	}
	return all
}

// isMeta reports whether a flag is about the command itself.
func isMeta(flag string) bool {
	return slices.Contains([]string{"help", "version"}, flag)
}

// applyEnvironment sets the flags of a command that variables name and the command line
// does not. The values of a repeatable flag are lines. Errors contain no value, which may
// be a secret.
func applyEnvironment(c *cobra.Command, variables map[string]string, args []string) error {
	given := map[string]bool{}
	c.Flags().Visit(func(f *pflag.Flag) { given[f.Name] = true })
	if len(args) > 0 && c.Annotations[takesProfile] != "" {
		given["profile"] = true
	}
	ignored := func(flag string) bool {
		for _, group := range alternatives {
			if slices.Contains(group, flag) && slices.ContainsFunc(group, func(other string) bool { return given[other] }) {
				return true
			}
		}
		return given[flag]
	}
	var err error
	c.Flags().VisitAll(func(f *pflag.Flag) {
		value, set := variables[variableOf(f.Name)]
		if !set || isMeta(f.Name) || ignored(f.Name) || err != nil {
			return
		}
		values := []string{value}
		if _, list := f.Value.(pflag.SliceValue); list {
			values = slices.DeleteFunc(strings.Split(value, "\n"), func(line string) bool { return strings.TrimSpace(line) == "" })
		}
		for _, v := range values {
			if c.Flags().Set(f.Name, strings.TrimSuffix(v, "\r")) != nil {
				err = usagef("%s cannot be a value of --%s: want a value of type %s", variableOf(f.Name), f.Name, f.Value.Type())
				return
			}
		}
		_ = c.Flags().SetAnnotation(f.Name, fromVariable, []string{"true"})
	})
	return err
}

// isFromVariable reports whether a variable has set the flag.
func isFromVariable(f *pflag.Flag) bool { return f.Annotations[fromVariable] != nil }

// warnOfVariables says which variables are probably misspelled.
func warnOfVariables(w goio.Writer, root *cobra.Command, environment []string) {
	known := slices.Sorted(maps.Keys(flagNames(root)))
	var words []string // without the prefix, which all have
	for _, name := range known {
		words = append(words, strings.TrimPrefix(name, variablePrefix))
	}
	for _, entry := range environment {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, variablePrefix) || slices.Contains(known, name) {
			continue
		}
		if meant := profiles.Nearest(strings.TrimPrefix(name, variablePrefix), words); meant != "" {
			fmt.Fprintf(w, "warning: the variable %s sets no flag; did you mean %s?\n", errorLine(name), variablePrefix+meant)
		}
	}
}
