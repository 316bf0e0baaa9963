package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagRule says beside which flags, or without which one, a flag has no effect.
type flagRule struct {
	command, flag string
	needs         string   // flag has no effect without it; "" = none
	not           []string // flag has no effect beside any of these
}

// flagRules are the rules that no command checks by itself.
var flagRules = []flagRule{
	{command: "run", flag: "metrics-linger", needs: "metrics"},
	{command: "run", flag: "pprof", needs: "metrics"},
	{command: "run", flag: "remote-write-every", needs: "remote-write"},
	{command: "run", flag: "otlp-every", needs: "otlp"},
	{command: "capacity", flag: "metrics-linger", needs: "metrics"},
	{command: "capacity", flag: "pprof", needs: "metrics"},
	{command: "capacity", flag: "remote-write-every", needs: "remote-write"},
	{command: "capacity", flag: "otlp-every", needs: "otlp"},
	{command: "check", flag: "arguments", needs: "event"},
	{command: "check", flag: "event", not: []string{"profile"}},
	{command: "run", flag: "plain", not: []string{"quiet"}},
	{command: "run", flag: "verbose", not: []string{"quiet"}},
	{command: "record", flag: "verbose", not: []string{"quiet"}},
	{command: "capacity", flag: "verbose", not: []string{"quiet"}},
	{command: "record", flag: "plain", not: []string{"quiet"}},
	{command: "serve", flag: "tls-addr", needs: "tls"},
	{command: "serve", flag: "allow-host", needs: "feed"},
	{command: "serve", flag: "callback-insecure", not: []string{"callback-ca"}},
	{command: "serve", flag: "stdio", not: []string{"addr", "tls", "proxies-may-buffer", "sse-answers", "token"}},
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
		if r.command != c.Name() || !c.Flags().Changed(r.flag) {
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
