package main

import (
	"fmt"
	goio "io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eventmeter/eventmeter/profiles"
)

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
	return slices.Contains([]string{"help", "help-all", "version"}, flag)
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
				err = usageError{fmt.Errorf("%s cannot be a value of --%s: want a %s", variableOf(f.Name), f.Name, f.Value.Type())}
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
