package profiles

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/google/shlex"
)

// Command is a program and its arguments. In YAML it is a list, or one text
// that is split the way a shell splits words: quotes and backslashes mean what
// they mean there, but no shell is asked and nothing is expanded.
type Command []string

var typeCommand = reflect.TypeFor[Command]()

// command decodes a command that was written as one text.
func (d *decoder) command(n ast.Node, at place, path string, v reflect.Value) {
	value, text := scalarOf(n)
	if _, ok := value.(bool); ok {
		d.report(at, path, text+" is not a command", "write the program and its arguments")
		return
	}
	words, err := SplitCommand(text)
	if err != nil {
		d.fail(at, path, err)
		return
	}
	v.Set(reflect.ValueOf(words))
}

// SplitCommand splits a text into a command. The error says how to mend it.
func SplitCommand(text string) (Command, error) {
	words, err := shlex.Split(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s cannot be split into words: %w; close every quote, or write a list", quote(text), err)
	case len(words) == 0 || words[0] == "":
		return nil, fmt.Errorf("%s names no program; write the program and its arguments", quote(text))
	}
	return words, nil
}

// IsEmbedded tells whether the run starts the reference target for itself.
func (t *Target) IsEmbedded() bool { return t.URL == "" && len(t.Command) == 0 }

// OverStdio tells whether the target is met over standard input and output.
func (t *Target) OverStdio() bool {
	return len(t.Command) > 0 || t.IsEmbedded() && t.Embedded.Transport == "stdio"
}

// command checks a target that is a program, and that nothing was given that
// only an address has.
func (c *checker) command() {
	t := &c.p.Target
	if c.given("target.command") && (len(t.Command) == 0 || t.Command[0] == "") {
		c.bad("target.command", "names no program", "write the program and its arguments, as in command: my-server --flag value")
		return
	}
	if len(t.Command) > 0 && t.URL != "" {
		c.bad("target.command", "there is a url as well", "give one of the two")
		return
	}
	if !t.IsEmbedded() && c.given("target.embedded") {
		c.bad("target.embedded", "is about the target that a run starts for itself, and this profile names another", "remove it, or the url or command")
	}
	if len(t.Command) == 0 {
		c.reject("target", []string{"env", "dir"}, "is of a program that the run starts", "remove it, or give target.command")
	}
	for _, name := range slices.Sorted(maps.Keys(t.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(t.Env[name], 0) {
			c.bad(join("target.env", name), quote(name)+" cannot be a variable", "write NAME: value")
		}
	}
	if !t.OverStdio() {
		return
	}
	c.reject("target", []string{"headers", "tokens", "tokenFile", "caFile", "allow"}, "means nothing over standard input and output, which has one principal",
		"remove it; what a program has to know goes into target.env")
	for i := range c.p.Lanes {
		c.laneOverStdio(fmt.Sprintf("lanes.%d", i), &c.p.Lanes[i])
	}
}

// laneOverStdio finds what a lane needs connections of its own for.
func (c *checker) laneOverStdio(path string, l *Lane) {
	const mend = "meet the target by its url, or leave the lane out"
	if c.given(path + ".http") {
		c.bad(path+".http", "means nothing over standard input and output", "remove it")
	}
	switch {
	case l.System == SystemSEP975:
		c.bad(path+".system", "sep-975 resumes requests on another connection, and a pipe cannot be cut and opened again", mend)
	case l.System == "sep-1803" && l.Mode == "push":
		c.bad(path+".mode", "sep-1803 in band is followed over HTTP only", "set mode: webhook, or meet the target by its url")
	case l.System == SystemSEP2549 && l.SEP2549.Notifications:
		c.bad(path+".sep2549.notifications", "are followed over HTTP only", "remove it, or meet the target by its url")
	}
}
