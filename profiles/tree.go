package profiles

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"
)

// A profile's YAML is read into a tree of our own first: overrides are set in
// it, and it remembers where everything came from.
type node struct {
	where  string
	line   int
	kind   kind
	value  any    // of a scalar: nil, bool, string, int64, uint64 or float64
	text   string // of a scalar, as it was written
	fields []field
	items  []*node
}

type field struct {
	key   string
	value *node
}

type kind uint8

const (
	scalar kind = iota
	sequence
	mapping
)

func (k kind) String() string {
	return [...]string{"a single value", "a list", "a group of keys"}[k]
}

func (n *node) field(key string) *node {
	for _, f := range n.fields {
		if f.key == key {
			return f.value
		}
	}
	return nil
}

// reader turns the syntax tree of one text into nodes.
type reader struct {
	where    func(line int) string // where a line is, for people
	over     int                   // added to line numbers, so that overrides sort last
	problems []Problem
}

const (
	maxBytes = 1 << 20
	maxDepth = 64
	// maxTokens is about 5,000 keys with a value each. The time that the parser
	// takes grows with the square of the number of keys in one group.
	maxTokens = 20_000
)

// read parses text, which must be one YAML document.
func (r *reader) read(text []byte) (root *node) {
	if len(text) > maxBytes {
		r.bad(1, "", "is too large for a profile", "at most 1 MiB is read")
		return nil
	}
	tokens, line, what, mend := scan(text)
	if what != "" {
		r.bad(line, "", what, mend)
		return nil
	}
	file, err := parseYAML(tokens)
	if err != nil {
		line, what := 1, err.Error()
		if at := yaml.Error(nil); errors.As(err, &at) {
			what = at.GetMessage()
			if t := at.GetToken(); t != nil && t.Position != nil {
				line = t.Position.Line
			}
		}
		r.bad(line, "", "this is not YAML: "+what, "mind indentation, quotes and brackets")
		return nil
	}
	var bodies []ast.Node
	for _, d := range file.Docs {
		if d.Body != nil && d.Body.Type() != ast.CommentType && d.Body.Type() != ast.DirectiveType {
			bodies = append(bodies, d.Body)
		}
	}
	switch {
	case len(bodies) == 0:
		return nil
	case len(bodies) > 1:
		r.bad(lineOf(bodies[1], 1), "", "a second document begins here", "write one profile a file")
	}
	return r.convert(bodies[0], "", 1, 0)
}

// scan splits text into tokens. Where there are more of them, or deeper nested
// ones, than a profile needs, it stops, and returns the line and what is wrong:
// the parser would take time and memory out of all proportion.
func scan(text []byte) (tokens token.Tokens, line int, what, mend string) {
	defer func() {
		if p := recover(); p != nil {
			line, what, mend = 1, fmt.Sprintf("this is not YAML: the scanner gave up: %v", p), "mind indentation, quotes and brackets"
		}
	}()
	var s scanner.Scanner
	s.Init(string(text))
	line = 1
	flow, block := 0, 0 // brackets that are open, and signs that nest on the line
	for {
		found, err := s.Scan()
		if err == io.EOF {
			return tokens, 0, "", ""
		}
		// Any other error is in the last token, which the parser reports.
		for i, t := range found {
			if t.Position != nil && t.Position.Line != line {
				line, block = t.Position.Line, 0
			}
			switch t.Type {
			case token.SequenceStartType, token.MappingStartType:
				flow++
			case token.SequenceEndType, token.MappingEndType:
				flow = max(0, flow-1)
			case token.SequenceEntryType, token.MappingKeyType, token.MappingValueType, token.AnchorType, token.AliasType, token.TagType:
				if flow == 0 {
					block++
				}
			}
			switch {
			case flow > maxDepth:
				return nil, line, "brackets are nested too deeply", fmt.Sprintf("at most %d levels are read", maxDepth)
			case block > maxDepth:
				return nil, line, "nested too deeply on one line", fmt.Sprintf("at most %d levels are read", maxDepth)
			case len(tokens)+i >= maxTokens:
				return nil, line, "there is too much in it", fmt.Sprintf("at most %d keys, values and signs between them are read", maxTokens)
			}
		}
		tokens.Add(found...)
	}
}

// parseYAML guards against the parser's own mistakes: a profile may come from
// anywhere, and must not bring a program down.
func parseYAML(tokens token.Tokens) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the parser gave up: %v", p)
		}
	}()
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

func (r *reader) bad(line int, key, what, mend string) {
	r.problems = append(r.problems, Problem{Where: r.where(line), Key: key, What: what, Mend: mend, line: line + r.over})
}

func (r *reader) convert(n ast.Node, path string, line, depth int) *node {
	line = lineOf(n, line)
	out := &node{where: r.where(line), line: line + r.over}
	if depth > maxDepth {
		r.bad(line, path, "nested too deeply", fmt.Sprintf("at most %d levels are read", maxDepth))
		return out
	}
	switch n := n.(type) {
	case nil, *ast.NullNode:
	case *ast.MappingNode:
		out.kind = mapping
		r.fields(out, n.Values, path, line, depth)
	case *ast.MappingValueNode:
		out.kind = mapping
		r.fields(out, []*ast.MappingValueNode{n}, path, line, depth)
	case *ast.SequenceNode:
		out.kind = sequence
		for i, v := range n.Values {
			out.items = append(out.items, r.convert(v, join(path, fmt.Sprint(i)), line, depth+1))
		}
	case *ast.StringNode:
		out.value, out.text = n.Value, n.Value
	case *ast.LiteralNode:
		out.value, out.text = n.Value.Value, n.Value.Value
	case *ast.BoolNode:
		out.value, out.text = n.Value, n.Token.Value
	case *ast.IntegerNode:
		out.value, out.text = integer(n.Value), n.Token.Value
		if out.value == nil {
			r.bad(line, path, fmt.Sprintf("%s is too large a number", out.text), "write it in quotes if it is a name")
		}
	case *ast.FloatNode:
		out.value, out.text = n.Value, n.Token.Value
		if math.IsInf(n.Value, 0) || math.IsNaN(n.Value) {
			r.bad(line, path, out.text+" is not a finite number", "give a finite one")
		}
	case *ast.InfinityNode, *ast.NanNode:
		r.bad(line, path, "not a finite number", "give a finite one")
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		r.bad(line, path, "anchors and aliases are not read", "write the value out")
	case *ast.TagNode:
		r.bad(line, path, "tags are not read", "leave the tag away")
	default:
		r.bad(line, path, "this kind of YAML is not read", "use plain keys, lists and values")
	}
	return out
}

func (r *reader) fields(out *node, values []*ast.MappingValueNode, path string, line, depth int) {
	seen := map[string]int{}
	for _, v := range values {
		at := lineOf(v.Key, line)
		var key string
		switch k := v.Key.(type) {
		case *ast.StringNode:
			key = k.Value
		case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
			key = k.GetToken().Value
		default:
			r.bad(at, path, "this is no key", "write keys as plain words; merge keys and tags are not read")
			continue
		}
		here := join(path, key)
		if first, ok := seen[key]; ok {
			r.bad(at, here, fmt.Sprintf("given twice, first on line %d", first), "keep one of them")
			continue
		}
		seen[key] = at
		child := r.convert(v.Value, here, at, depth+1)
		// A group of keys begins a line below its own key.
		child.where, child.line = r.where(at), at+r.over
		out.fields = append(out.fields, field{key, child})
	}
}

func integer(v any) any {
	switch v := v.(type) {
	case int64:
		return v
	case uint64:
		if v <= math.MaxInt64 {
			return int64(v)
		}
		return v
	case int:
		return int64(v)
	}
	return nil
}

func lineOf(n ast.Node, otherwise int) int {
	if n == nil {
		return otherwise
	}
	if s, ok := n.(*ast.SequenceNode); ok && !s.IsFlowStyle && len(s.Values) == 0 {
		return otherwise
	}
	t := n.GetToken()
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 {
		t = m.Values[0].Key.GetToken()
	}
	if m, ok := n.(*ast.MappingValueNode); ok {
		t = m.Key.GetToken()
	}
	if t == nil || t.Position == nil || t.Position.Line < 1 {
		return otherwise
	}
	return t.Position.Line
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// deeper tells whether the tree is more than levels deep.
func (n *node) deeper(levels int) bool {
	if levels < 0 {
		return true
	}
	for _, f := range n.fields {
		if f.value.deeper(levels - 1) {
			return true
		}
	}
	for _, item := range n.items {
		if item.deeper(levels - 1) {
			return true
		}
	}
	return false
}

// quote shortens what it quotes, so that a problem stays one line.
func quote(s string) string {
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:57], "") + "..."
	}
	return fmt.Sprintf("%q", s)
}
