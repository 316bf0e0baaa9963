package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// flagSpec declares a flag of a command.
type flagSpec struct {
	to    any    // pointer to the variable that it sets, whose value is the default
	name  string // with a comma and its letter, if it has one
	usage string
}

// addFlags adds flags to a command. A flag of a list is given once for each entry.
func addFlags(c *cobra.Command, flags []flagSpec) {
	fl := c.Flags()
	for _, f := range flags {
		name, letter, _ := strings.Cut(f.name, ",")
		switch to := f.to.(type) {
		case *string:
			fl.StringVarP(to, name, letter, *to, f.usage)
		case *[]string:
			fl.StringArrayVarP(to, name, letter, *to, f.usage)
		case *bool:
			fl.BoolVarP(to, name, letter, *to, f.usage)
		case *int:
			fl.IntVarP(to, name, letter, *to, f.usage)
		case *float64:
			fl.Float64VarP(to, name, letter, *to, f.usage)
		case *time.Duration:
			fl.DurationVarP(to, name, letter, *to, f.usage)
		default:
			panic(fmt.Sprintf("--%s sets a %T", f.name, to))
		}
	}
}
