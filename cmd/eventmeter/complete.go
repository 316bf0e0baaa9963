package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
)

// completeProfiles completes the names of built-in profiles, and files.
func completeProfiles(_ *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, p := range profiles.Builtin() {
		out = append(out, cobra.CompletionWithDesc(p.Name, p.Description))
	}
	return out, cobra.ShellCompDirectiveDefault // and files
}

// completeSet completes the paths of --set, and values that are words.
func completeSet(c *cobra.Command) {
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
