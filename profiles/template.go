package profiles

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"
)

// A part is a piece of a compiled text: a constant, a field, or a template.
type part struct {
	constant []byte
	field    string // Index, Source, Seq or Probe
	tmpl     *template.Template
	json     bool // the template's output becomes a JSON string
}

// env holds the values that templates can use.
type env struct {
	Index, Source, Seq int
	Probe              string
}

// scope names the values that a template can use.
type scope []string

var (
	perSubscription = scope{"Index"}
	perEmission     = scope{"Source", "Seq", "Probe"}
)

// functions are total: a template that works for one number works for all.
var functions = template.FuncMap{
	"add": func(a, b int) int { return a + b },
	"sub": func(a, b int) int { return a - b },
	"mul": func(a, b int) int { return a * b },
	"div": func(a, b int) int {
		if b == 0 {
			return 0
		}
		return a / b
	},
	"mod": func(a, b int) int {
		if b == 0 {
			return 0
		}
		return a % b
	},
	"int":    func(a int) int { return a },
	"printf": printf,
}

// Bounds of templates. Templates run for each subscription or emission, so their
// output must be bounded as well.
const (
	maxText   = 64 << 10 // bytes that one printf gives
	maxOutput = 1 << 20  // bytes of a text, of all arguments, or of a payload
	maxVerbs  = 64       // of one format
	maxWidth  = 3        // digits of a width in a format
)

// printf cuts its output, so that it is total and nested formats stay in bounds.
// triedPrintf reports a format that would be cut.
func printf(format string, args ...any) string {
	s := fmt.Sprintf(format, args...)
	return s[:min(len(s), maxText)]
}

// triedPrintf is printf for the trial run of a template.
func triedPrintf(format string, args ...any) (string, error) {
	s := fmt.Sprintf(format, args...)
	if len(s) > maxText {
		return "", fmt.Errorf("a printf gives more than %d KiB", maxText>>10)
	}
	return s, nil
}

// format checks the format of a printf, to bound what printf allocates.
func format(cmd *parse.CommandNode) error {
	if len(cmd.Args) < 2 {
		return errors.New("printf needs a format in quotes")
	}
	f, ok := cmd.Args[1].(*parse.StringNode)
	if !ok {
		return errors.New("the format of printf must stand in quotes")
	}
	if n := strings.Count(f.Text, "%"); n > maxVerbs {
		return fmt.Errorf("a format has %d verbs; use at most %d", n, maxVerbs)
	}
	if strings.Contains(f.Text, "*") {
		return errors.New("a format has the width *; write the width as a number")
	}
	digits := 0
	for _, r := range f.Text {
		if digits++; r < '0' || r > '9' {
			digits = 0
		}
		if digits > maxWidth {
			return fmt.Errorf("a format has a number of more than %d digits; use a smaller width", maxWidth)
		}
	}
	return nil
}

var functionNames = []string{"add", "sub", "mul", "div", "mod", "int", "printf"}

// compiler compiles texts of one scope.
type compiler struct {
	scope scope
	json  bool // texts become JSON strings
}

// text compiles one text.
func (c compiler) text(text string) ([]part, error) {
	if !strings.Contains(text, "{{") {
		return []part{{constant: c.literal(text)}}, nil
	}
	t, err := template.New("t").Option("missingkey=error").Funcs(functions).Parse(text)
	if err != nil {
		return nil, c.explain(err)
	}
	if t.Tree == nil || len(t.Templates()) > 1 {
		return nil, errControl
	}
	nodes := t.Root.Nodes
	for _, n := range nodes {
		if err := c.allowed(n); err != nil {
			return nil, err
		}
	}
	if c.json && len(nodes) == 1 && lastFunction(nodes[0]) == "int" {
		return c.tried([]part{{tmpl: t}})
	}
	if parts := c.split(nodes); parts != nil {
		return c.tried(parts)
	}
	return c.tried([]part{{tmpl: t, json: c.json}})
}

var errControl = errors.New("only values and functions can be used in a template; remove if, range, with, variables and definitions")

// allowed refuses nodes that could loop, fail for some numbers only, or read anything
// but the fields.
func (c compiler) allowed(n parse.Node) error {
	switch n := n.(type) {
	case *parse.TextNode, *parse.CommentNode:
		return nil
	case *parse.ActionNode:
		return c.pipe(n.Pipe)
	}
	return errControl
}

func (c compiler) pipe(p *parse.PipeNode) error {
	if len(p.Decl) > 0 {
		return errControl
	}
	for _, cmd := range p.Cmds {
		if f, ok := cmd.Args[0].(*parse.IdentifierNode); ok && f.Ident == "printf" {
			if err := format(cmd); err != nil {
				return err
			}
		}
		for _, arg := range cmd.Args {
			switch a := arg.(type) {
			case *parse.PipeNode:
				if err := c.pipe(a); err != nil {
					return err
				}
			case *parse.IdentifierNode:
				if !slices.Contains(functionNames, a.Ident) {
					return fmt.Errorf("no function %s here; %s", a.Ident, advise(a.Ident, functionNames))
				}
			case *parse.FieldNode:
				if len(a.Ident) != 1 || !slices.Contains(c.scope, a.Ident[0]) {
					name := strings.Join(a.Ident, ".")
					return fmt.Errorf("no value .%s here; %s", name, advise("."+name, c.scope.dotted()))
				}
			case *parse.NumberNode, *parse.StringNode:
			default:
				return fmt.Errorf(
					"%s cannot be used in a template here; use %s, numbers and functions",
					a,
					strings.Join(c.scope.dotted(), ", "),
				)
			}
		}
	}
	return nil
}

// split cuts a template that consists of text and bare fields into parts that need no
// template at run time. It returns nil for any other template.
func (c compiler) split(nodes []parse.Node) []part {
	parts := []part{}
	if c.json {
		parts = append(parts, part{constant: []byte{'"'}})
	}
	for _, n := range nodes {
		switch n := n.(type) {
		case *parse.TextNode:
			text := c.literal(string(n.Text))
			if c.json {
				text = text[1 : len(text)-1]
			}
			parts = append(parts, part{constant: text})
		case *parse.ActionNode:
			if len(n.Pipe.Cmds) != 1 || len(n.Pipe.Cmds[0].Args) != 1 {
				return nil
			}
			f, ok := n.Pipe.Cmds[0].Args[0].(*parse.FieldNode)
			if !ok {
				return nil
			}
			parts = append(parts, part{field: f.Ident[0]})
		}
	}
	if c.json {
		parts = append(parts, part{constant: []byte{'"'}})
	}
	return parts
}

// samples are the numbers for the trial run of a template: the smallest and the
// largest.
var samples = []env{{}, {Index: maxSubscriptions, Source: math.MaxUint16, Seq: math.MaxUint32, Probe: sampleProbe}}

// tried runs parts once. A template that works for one number works for all.
func (c compiler) tried(parts []part) ([]part, error) {
	for _, p := range parts {
		if p.tmpl == nil {
			continue
		}
		for i := range samples {
			var out bytes.Buffer
			if err := p.tmpl.Funcs(template.FuncMap{"printf": triedPrintf}).Execute(&out, &samples[i]); err != nil {
				return nil, c.explain(err)
			}
			if out.Len() > maxOutput {
				return nil, fmt.Errorf("a template gives more than %d KiB of text; make it shorter", maxOutput>>10)
			}
		}
		p.tmpl.Funcs(functions)
	}
	return parts, nil
}

// explain removes the prefix that text/template puts before its errors.
func (c compiler) explain(err error) error {
	text := err.Error()
	if i := strings.Index(text, ">: "); i >= 0 {
		text = text[i+3:]
	} else if rest, ok := strings.CutPrefix(text, "template: t:"); ok {
		_, text, _ = strings.Cut(rest, ": ")
	}
	text = strings.ReplaceAll(text, ";", ",")
	return fmt.Errorf("bad template: %s; write it like {{mod .%s 10}}", oneLine(text), c.scope[0])
}

func (c compiler) literal(text string) []byte {
	if c.json {
		return appendJSONString(nil, text)
	}
	return []byte(text)
}

// run appends parts to dst.
func run(dst []byte, parts []part, e *env) []byte {
	for i := range parts {
		p := &parts[i]
		switch {
		case p.tmpl != nil:
			var b bytes.Buffer
			if err := p.tmpl.Execute(&b, e); err != nil {
				panic("profiles: a template that was tried has failed: " + err.Error())
			}
			if p.json {
				dst = appendJSONString(dst, b.String())
			} else {
				dst = append(dst, b.Bytes()...)
			}
		case p.field != "":
			dst = e.append(dst, p.field)
		default:
			dst = append(dst, p.constant...)
		}
	}
	return dst
}

func (e *env) append(dst []byte, field string) []byte {
	switch field {
	case "Probe":
		return append(dst, e.Probe...)
	case "Source":
		return strconv.AppendInt(dst, int64(e.Source), 10)
	case "Seq":
		return strconv.AppendInt(dst, int64(e.Seq), 10)
	}
	return strconv.AppendInt(dst, int64(e.Index), 10)
}

// merge joins neighbouring constants.
func merge(parts []part) []part {
	var out []part
	for _, p := range parts {
		if n := len(out); n > 0 && p.constant != nil && out[n-1].constant != nil {
			out[n-1].constant = append(out[n-1].constant, p.constant...)
			continue
		}
		if p.constant != nil {
			p.constant = append([]byte(nil), p.constant...)
		}
		out = append(out, p)
	}
	return out
}

func lastFunction(n parse.Node) string {
	a, ok := n.(*parse.ActionNode)
	if !ok {
		return ""
	}
	args := a.Pipe.Cmds[len(a.Pipe.Cmds)-1].Args
	if f, ok := args[0].(*parse.IdentifierNode); ok {
		return f.Ident
	}
	return ""
}

func (s scope) dotted() (names []string) {
	for _, n := range s {
		names = append(names, "."+n)
	}
	return names
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// sampleProbe has the form of a probe id.
const sampleProbe = "evtm-00000001-0000-00000001-00"
