package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
)

func newProfilesCommand(io streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "profiles",
		Short: "List, show and check profiles",
		Long: `Profiles lists the built-in profiles.

To have an editor complete and check a profile, save the schema and name it in the first
line of the file, as the YAML language server reads it:

  # yaml-language-server: $schema=profile.schema.json`,
		Example: "  eventmeter profiles\n  eventmeter profiles show compare --set phases.measure=1m > mine.yaml\n  eventmeter " +
			"profiles check mine.yaml\n  eventmeter profiles schema > profile.schema.json",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return listProfiles(io) },
	}
	c.AddCommand(
		&cobra.Command{
			Use: "list", Short: "List the built-in profiles", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error { return listProfiles(io) },
		},
		newShowCommand(io),
		&cobra.Command{
			Use: "schema", Short: "Print the JSON Schema of profiles, for editors", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				_, err := io.out.Write(profiles.Schema())
				return err
			},
		},
		&cobra.Command{
			Use: "check FILE...", Short: "Check profile files, or standard input (-)", Args: cobra.MinimumNArgs(1),
			ValidArgsFunction: completeProfiles,
			RunE:              func(_ *cobra.Command, args []string) error { return checkProfiles(io, args) },
		},
	)
	return c
}

func newShowCommand(io streams) *cobra.Command {
	var set []string
	c := &cobra.Command{
		Use:               "show PROFILE",
		Short:             "Print a built-in profile, a file or standard input (-), with overrides and comments",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeProfiles,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := checkSet(set); err != nil {
				return err
			}
			name, text, err := (&profileReader{in: io.in}).get(args[0])
			if err == nil && len(set) > 0 {
				text, err = profiles.Edit(name, text, set, systems.Table)
			}
			if err != nil {
				return usageError{err}
			}
			_, err = io.out.Write(text)
			return err
		},
	}
	addFlags(c, []flagSpec{
		{&set, "set", setHelp + ", e.g. lanes.push.subscriptions=1000"},
	})
	completeSet(c)
	return c
}

func listProfiles(io streams) error {
	w := tabwriter.NewWriter(io.out, 0, 0, 2, ' ', 0)
	for _, p := range profiles.Builtin() {
		fmt.Fprintf(w, "%s\t%s\n", p.Name, p.Description)
	}
	return w.Flush()
}

// checkProfiles checks every file before it fails.
func checkProfiles(io streams, names []string) error {
	bad := 0
	reader := &profileReader{in: io.in}
	for _, name := range names {
		label, data, err := reader.get(name)
		var p *profiles.Profile
		if err == nil {
			p, err = profiles.Parse(label, data, nil, systems.Table)
		}
		if err == nil {
			_, _, err = run.Judges(p)
		}
		if err != nil {
			bad++
			fmt.Fprintln(io.err, err)
			continue
		}
		subs := 0
		for _, l := range p.Lanes {
			subs += l.Subscriptions
		}
		fmt.Fprintf(io.out, "%s: ok: %d lanes, %d subscriptions, %v\n", name, len(p.Lanes), subs, p.Phases.Warmup+p.Phases.Measure)
	}
	if bad > 0 {
		return usagef("%d of %d profiles are not valid", bad, len(names))
	}
	return nil
}
