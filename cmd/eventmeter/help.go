package main

import (
	"errors"
	"fmt"
	goio "io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eventmeter/eventmeter/profiles"
)

// helpWidth is how wide help may be.
const helpWidth = 100

// briefFlags are the flags that the short help of a command shows. A command that is not
// here shows all of its flags.
var briefFlags = map[string][]string{
	"run": {
		"target",
		"command",
		"token",
		"upstream-url",
		"subscriptions",
		"rate",
		"duration",
		"event",
		"set",
		"out",
		"format",
		"full",
		"quiet",
		"against",
		"trials",
	},
	"capacity": {"target", "token", "upstream-url", "axis", "from", "to", "slo", "event", "set", "out", "format", "quiet"},
	"check":    {"target", "token", "event", "arguments", "upstream-url", "subscriptions", "duration", "set", "format", "quiet"},
	"serve":    {"addr", "admin", "tls", "stdio", "token", "faults", "options", "allow-private-callbacks", "callback-insecure"},
	"record":   {"target", "command", "token", "event", "arguments", "mode", "duration", "out"},
	"discover": {"target", "command", "token", "event", "write", "format"},
}

// briefExamples is how many lines of examples the short help shows.
const briefExamples = 9

// showHelp prints the help of a command: what one needs first, or all.
func showHelp(c *cobra.Command, all bool) error {
	var b strings.Builder
	about, rest, _ := strings.Cut(c.Long, "\n\n")
	if about == "" {
		about = c.Short
	}
	fmt.Fprintf(&b, "%s\n", about)
	if all && rest != "" {
		fmt.Fprintf(&b, "\n%s\n", rest)
	}
	fmt.Fprintf(&b, "\nUsage: %s\n", usageOf(c))
	examples := strings.Split(strings.TrimRight(c.Example, "\n"), "\n")
	hidden := rest != ""
	if c.Example != "" {
		if !all && len(examples) > briefExamples {
			examples, hidden = cutExamples(examples), true
		}
		fmt.Fprintf(&b, "\nExamples:\n%s\n", strings.Join(examples, "\n"))
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(&b, "  %-12s %s\n", sub.Name(), sub.Short)
			}
		}
	}
	flags, left := flagsOf(c, all)
	if text := flags.FlagUsagesWrapped(helpWidth); text != "" {
		fmt.Fprintf(&b, "\nFlags:\n%s", text)
	}
	switch {
	case all && c.HasParent() && len(briefOf(c)) > 0:
		fmt.Fprintf(
			&b,
			"\nEach flag can also be set by an environment variable, such as %s; that of a repeatable flag has one value on each line.\n",
			variableOf("upstream-url"),
		)
	case left > 0:
		fmt.Fprintf(&b, "\n%s --help-all shows %d more flags and explains the command.\n", c.CommandPath(), left)
	case hidden && !all:
		fmt.Fprintf(&b, "\n%s --help-all explains the command.\n", c.CommandPath())
	}
	_, err := goio.WriteString(c.OutOrStdout(), b.String())
	return err
}

// usageOf returns the line of usage.
func usageOf(c *cobra.Command) string {
	if !c.Runnable() || !c.HasParent() {
		return c.CommandPath() + " COMMAND"
	}
	text := c.UseLine()
	if !strings.HasSuffix(text, "[flags]") {
		text += " [flags]"
	}
	return text
}

// cutExamples keeps whole examples, which go on while lines end with a backslash.
func cutExamples(lines []string) []string {
	n := briefExamples
	for n > 1 && strings.HasSuffix(lines[n-1], `\`) {
		n--
	}
	return lines[:n]
}

// flagsOf returns the flags that help shows, and how many it does not.
func flagsOf(c *cobra.Command, all bool) (shown *pflag.FlagSet, left int) {
	shown = pflag.NewFlagSet(c.Name(), pflag.ContinueOnError)
	brief := briefOf(c)
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		switch {
		case f.Hidden, isMeta(f.Name) && c.HasParent():
		case all || brief == nil || slices.Contains(brief, f.Name):
			one := *f
			if !all {
				one.Usage, _, _ = strings.Cut(one.Usage, "; ")
				one.Usage = strings.TrimSuffix(one.Usage, " (default: the profile's)")
			}
			shown.AddFlag(&one)
		default:
			left++
		}
	})
	return shown, left
}

// briefOf returns the flags of the short help; nil = all.
func briefOf(c *cobra.Command) []string {
	return briefFlags[strings.TrimPrefix(c.CommandPath(), "eventmeter ")]
}

// helpOfAll is the flag that asks for all of a command's help.
const helpOfAll = "--help-all"

// wantsAll returns the command whose help args ask for in full; nil = none.
func wantsAll(root *cobra.Command, args []string) *cobra.Command {
	end := slices.Index(args, "--")
	at := slices.Index(args, helpOfAll)
	if at < 0 || end >= 0 && end < at {
		return nil
	}
	c, _, err := root.Find(slices.Delete(slices.Clone(args), at, at+1))
	if err != nil {
		return root
	}
	return c
}

// flagError adds to the error about a flag which one was probably meant.
func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && len(unknown.GetSpecifiedName()) > 1 {
		var known []string
		c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		if meant := profiles.Nearest(unknown.GetSpecifiedName(), known); meant != "" {
			err = fmt.Errorf("%w; did you mean --%s?", err, meant)
		} else if now := renamed[unknown.GetSpecifiedName()]; now != "" && c.Flags().Lookup("format") != nil {
			err = fmt.Errorf("%w; write %s", err, now)
		}
	}
	return usageError{fmt.Errorf("%w; see %s --help", err, c.CommandPath())}
}

// renamed are words that other tools use as flags.
var renamed = map[string]string{
	"json":     "--format json",
	"markdown": "--format markdown",
	"junit":    "--format junit=FILE",
	"html":     "--format html=FILE",
}
