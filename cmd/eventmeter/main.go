// Command eventmeter measures how MCP servers deliver events. See the README, or
// run eventmeter help.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"

	"github.com/spf13/cobra"
)

func main() {
	interrupts := make(chan os.Signal, 2)
	signal.Notify(interrupts, terminationSignals()...)
	survivePipe()
	handlePanics()
	os.Exit(guarded(os.Stderr, func() error {
		return runCommand(context.Background(), os.Args[1:], streams{os.Stdin, &output{w: os.Stdout}, os.Stderr, interrupts})
	}))
}

// runCommand is the whole command. Its error decides the exit code.
func runCommand(ctx context.Context, args []string, io streams) error {
	root := newRoot(io)
	root.SetArgs(args)
	root.SetIn(io.in)
	root.SetOut(io.out)
	root.SetErr(io.err)
	return root.ExecuteContext(ctx)
}

func newRoot(io streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "eventmeter",
		Short: "Load testing for event delivery over MCP",
		Long: `eventmeter opens push streams, pollers and webhook subscriptions against a server of
the Model Context Protocol that delivers events, publishes stamped events upstream,
and reports when each client received them, how often, in what order, and at what
cost.

` + exitCodesHelp,
		Example:       "  eventmeter run                       # compare the modes on the embedded target\n  eventmeter run --target http://127.0.0.1:8080/mcp --token-file tokens.txt",
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },

		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return checkFlags(c) },
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see %s --help", err, c.CommandPath())}
	})
	root.AddCommand(newRunCommand(io), newCapacityCommand(io), newMergeCommand(io), newShardCommand(io), newPlanCommand(io), newRecordCommand(io), newCompareCommand(io), newReportCommand(io), newServeCommand(io), newDiscoverCommand(io), newCheckCommand(io), newDoctorCommand(io), newProfilesCommand(io))
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
				return usageError{fmt.Errorf("%w; see %s --help", err, c.CommandPath())}
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		asUsage(sub)
	}
}
