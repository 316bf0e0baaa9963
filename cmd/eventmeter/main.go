// Command eventmeter measures how MCP servers deliver events. See the README, or
// run eventmeter help.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
)

func main() {
	log.SetOutput(io.Discard) // net/http quotes there what a target sends unasked, which can be our token
	interrupts := make(chan os.Signal, 2)
	signal.Notify(interrupts, terminationSignals()...)
	survivePipe()
	handlePanics()
	stderr := newUnblocked(os.Stderr)
	code := guarded(stderr, func() error {
		io := streams{os.Stdin, &output{w: os.Stdout}, stderr, relay(interrupts), nil}
		environment, known := os.Environ(), newRoot(io)
		warnOfVariables(io.err, known, environment)
		io.variables = takeEnvironment(known, environment)
		return runCommand(context.Background(), os.Args[1:], io)
	})
	stderr.flush()
	os.Exit(code)
}

// runCommand is the whole command. Its error decides the exit code.
func runCommand(ctx context.Context, args []string, io streams) error {
	root := newRoot(io)
	root.SetOut(io.out)
	root.SetArgs(args)
	root.SetIn(io.in)
	root.SetErr(io.err)
	var signalled atomic.Bool
	err := root.ExecuteContext(context.WithValue(ctx, signalKey{}, &signalled))
	if errors.Is(err, context.Canceled) && ctx.Err() == nil && !signalled.Load() {
		return notInterrupted{err}
	}
	return err
}

func newRoot(io streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "eventmeter",
		Short: "Load testing for event delivery over MCP",
		Long: `eventmeter opens push streams, pollers and webhook subscriptions against a server of
the Model Context Protocol that delivers events, publishes stamped events upstream,
and reports when each client received them, how often, in what order, and at what
cost.

Each flag can also be set by an environment variable: --upstream-url by
EVENTMETER_UPSTREAM_URL. The variable of a repeatable flag has one value on each line. A flag
takes precedence over its variable, and both over the profile. These variables are not
passed on to targets or other programs that eventmeter starts.

` + exitCodesHelp,
		Example: `  eventmeter run                                 # compare the modes on the embedded target
  eventmeter discover --target http://127.0.0.1:8080/mcp --token any --write mine.yaml
  eventmeter run mine.yaml
  eventmeter capacity`,
		Version:       thisBuild().String(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },

		PersistentPreRunE: func(c *cobra.Command, args []string) error {
			if err := applyEnvironment(c, io.variables, args); err != nil {
				return err
			}
			return checkFlags(c)
		},
	}
	root.SetFlagErrorFunc(flagError)
	root.SetVersionTemplate("eventmeter {{.Version}}\n")
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped 100"))
	root.AddCommand(
		newRunCommand(io),
		newCapacityCommand(io),
		newMergeCommand(io),
		newShardCommand(io),
		newPlanCommand(io),
		newRecordCommand(io),
		newCompareCommand(io),
		newReportCommand(io),
		newServeCommand(io),
		newDiscoverCommand(io),
		newCheckCommand(io),
		newDoctorCommand(io),
		newProfilesCommand(io),
		newVersionCommand(io),
	)
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" {
			c.Args = func(_ *cobra.Command, args []string) error { return knownTopic(root, args) }
		}
	}
	asUsage(root)
	return root
}

// knownTopic refuses help about a command that does not exist.
func knownTopic(root *cobra.Command, args []string) error {
	c := root
	for _, name := range args {
		i := slices.IndexFunc(c.Commands(), func(sub *cobra.Command) bool { return sub.Name() == name || sub.HasAlias(name) })
		if i < 0 {
			return fmt.Errorf("unknown command %q for %q", name, c.CommandPath())
		}
		c = c.Commands()[i]
	}
	return nil
}

// asUsage marks the errors that a command finds in its arguments as usage errors.
func asUsage(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return usagef("%w; see %s --help", err, c.CommandPath())
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		asUsage(sub)
	}
}
