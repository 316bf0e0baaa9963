package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eventmeter/eventmeter/profiles"
)

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
	return usagef("%w; see %s --help", err, c.CommandPath())
}

// renamed are words that other tools use as flags.
var renamed = map[string]string{
	"json":     "--format json",
	"markdown": "--format markdown",
	"junit":    "--format junit=FILE",
	"html":     "--format html=FILE",
}
