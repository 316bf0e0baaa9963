package profiles

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"
)

// A tree is the syntax tree of a profile's YAML, in which overrides are set, with the
// place that each value came from.
type tree struct {
	origin   origin
	file     *ast.File
	root     ast.Node            // nil when the text is empty
	from     map[ast.Node]origin // the overrides that values were set by
	copied   int                 // tokens that overrides added so far
	problems []Problem
}

// origin is a text that values came from.
type origin struct {
	name     string
	override int // its number from 1; 0 for a file
}

// place is the place that one value came from.
type place struct {
	where string // for people
	line  int    // for sorting; overrides come last
}

// overLine is larger than any line number of a file.
const overLine = 1 << 30

func (o origin) at(line int) place {
	if o.override > 0 {
		return place{o.name, overLine + o.override}
	}
	return place{o.name + ":" + strconv.Itoa(line), line}
}

func (t *tree) bad(at place, key, what, fix string) {
	t.problems = append(t.problems, Problem{Where: at.where, Key: key, What: what, Fix: fix, line: at.line})
}

const (
	maxBytes = 1 << 20
	maxDepth = 64
	// maxTokens allows about 5,000 keys with a value each. The time of the parser
	// grows with the square of the number of keys in one group.
	maxTokens = 20_000
)

// readTree parses text, which must be one YAML document.
func readTree(from origin, text []byte, mode parser.Mode) *tree {
	t := &tree{origin: from, from: map[ast.Node]origin{}}
	if len(text) > maxBytes {
		t.bad(from.at(1), "", "is too large for a profile", "at most 1 MiB is read")
		return t
	}
	tokens, line, what, fix := scan(bytes.TrimPrefix(text, []byte("\ufeff"))) // some editors begin a file with this mark
	if what != "" {
		t.bad(from.at(line), "", what, fix)
		return t
	}
	t.copied = len(tokens)
	file, err := parseYAML(tokens, mode)
	if err != nil {
		line, what := 1, err.Error()
		if at := yaml.Error(nil); errors.As(err, &at) {
			what = at.GetMessage()
			if t := at.GetToken(); t != nil && t.Position != nil {
				line = t.Position.Line
			}
		}
		t.bad(from.at(line), "", "this is not YAML: "+what, "mind indentation, quotes and brackets")
		return t
	}
	t.file = file
	for _, d := range file.Docs {
		switch {
		case d.Body == nil || d.Body.Type() == ast.CommentType || d.Body.Type() == ast.DirectiveType:
		case t.root == nil:
			t.root = d.Body
		default:
			t.bad(from.at(lineOf(d.Body, 1)), "", "a second document begins here", "write one profile a file")
			return t
		}
	}
	if t.root != nil {
		t.verify(t.root, "", 1, 0)
	}
	return t
}

// scan splits text into tokens. It stops at more tokens, or deeper nesting, than any
// profile needs, and returns the line and the problem, because the parser would take
// excessive time and memory.
func scan(text []byte) (tokens token.Tokens, line int, what, fix string) {
	defer func() {
		if p := recover(); p != nil {
			line, what, fix = 1, fmt.Sprintf("this is not YAML: the scanner gave up: %v", p), "mind indentation, quotes and brackets"
		}
	}()
	var s scanner.Scanner
	s.Init(string(text))
	line = 1
	flow, block := 0, 0 // open brackets, and block indicators on the line
	for {
		found, err := s.Scan()
		if err == io.EOF {
			return tokens, 0, "", ""
		}
		// Any other error is in the last token; the parser reports it.
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
				return nil, line, "there is too much in it", fmt.Sprintf(
					"at most %d keys, values and signs between them are read",
					maxTokens,
				)
			}
		}
		tokens.Add(found...)
	}
}

// parseYAML recovers from panics of the parser, because a profile may come from
// anywhere.
func parseYAML(tokens token.Tokens, mode parser.Mode) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the parser gave up: %v", p)
		}
	}()
	return parser.Parse(tokens, mode, parser.AllowDuplicateMapKey())
}

// print returns the text of the tree; nil if the library cannot print it.
func (t *tree) print() (text []byte) {
	defer func() {
		if recover() != nil {
			text = nil
		}
	}()
	return []byte(t.file.String())
}

// verify reports YAML features that profiles do not support.
func (t *tree) verify(n ast.Node, path string, line, depth int) {
	line = lineOf(n, line)
	bad := func(what, fix string) { t.bad(t.origin.at(line), path, what, fix) }
	if depth > maxDepth {
		bad("nested too deeply", fmt.Sprintf("at most %d levels are read", maxDepth))
		return
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		t.verifyKeys(n, path, line, depth)
	case *ast.SequenceNode:
		for i, item := range n.Values {
			t.verify(item, join(path, strconv.Itoa(i)), line, depth+1)
		}
	case nil, *ast.NullNode, *ast.StringNode, *ast.LiteralNode, *ast.BoolNode:
	case *ast.IntegerNode:
		switch value, text := scalarOf(n); {
		case !decimal(text):
			bad(text+" can be read as several numbers", "write a whole number in plain digits, as in 1000, or a name in quotes")
		case value == nil:
			bad(text+" is too large a number", "write it in quotes if it is a name")
		}
	case *ast.FloatNode:
		if strings.Contains(n.Token.Value, "_") {
			bad(n.Token.Value+" can be read as several numbers", "write it without underscores, or a name in quotes")
		}
		if math.IsInf(n.Value, 0) || math.IsNaN(n.Value) {
			bad(n.Token.Value+" is not a finite number", "give a finite one")
		}
	case *ast.InfinityNode, *ast.NanNode:
		bad("not a finite number", "give a finite one")
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		bad("anchors and aliases are not read", "write the value out")
	case *ast.TagNode:
		bad("tags are not read", "remove the tag")
	default:
		bad("this kind of YAML is not read", "use plain keys, lists and values")
	}
}

// decimal reports whether the text of a number means the same to every reader. The versions of
// YAML differ about leading zeros, which can mean base 8, and about underscores between digits.
func decimal(text string) bool {
	digits := strings.TrimLeft(text, "+-")
	octal := len(digits) > 1 && digits[0] == '0'
	return !octal && !strings.Contains(digits, "_")
}

func (t *tree) verifyKeys(n *ast.MappingNode, path string, line, depth int) {
	seen := map[string]int{}
	for _, f := range n.Values {
		at := lineOf(f.Key, line)
		key, ok := keyText(f.Key)
		if !ok {
			t.bad(t.origin.at(at), path, "this is not a key", "write keys as plain words; merge keys and tags are not read")
			continue
		}
		here := join(path, key)
		if first, ok := seen[key]; ok {
			t.bad(t.origin.at(at), here, fmt.Sprintf("given twice, first on line %d", first), "keep one of them")
			continue
		}
		seen[key] = at
		t.verify(f.Value, here, at, depth+1)
	}
}

// place returns the place of n. A value in a group has the line of its key; above is
// the place of the group or list.
func (t *tree) place(key, n ast.Node, above place) place {
	if o, ok := t.from[n]; ok {
		return o.at(0)
	}
	if above.line >= overLine {
		return above
	}
	return t.origin.at(lineOf(key, above.line))
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

func kindOf(n ast.Node) kind {
	switch n.(type) {
	case *ast.MappingNode:
		return mapping
	case *ast.SequenceNode:
		return sequence
	}
	return scalar
}

// scalarOf returns the value of a scalar (nil, bool, string, int64, uint64 or
// float64) and its text.
func scalarOf(n ast.Node) (value any, text string) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, n.Value
	case *ast.LiteralNode:
		return n.Value.Value, n.Value.Value
	case *ast.BoolNode:
		return n.Value, n.Token.Value
	case *ast.FloatNode:
		return n.Value, n.Token.Value
	case *ast.IntegerNode:
		switch v := n.Value.(type) {
		case int64:
			return v, n.Token.Value
		case uint64:
			if v <= math.MaxInt64 {
				return int64(v), n.Token.Value
			}
			return v, n.Token.Value
		}
		return nil, n.Token.Value
	}
	return nil, ""
}

func isNull(n ast.Node) bool {
	value, _ := scalarOf(n)
	return kindOf(n) == scalar && value == nil
}

// plain returns n as the value that JSON would have.
func plain(n ast.Node) any {
	switch n := n.(type) {
	case *ast.MappingNode:
		m := make(map[string]any, len(n.Values))
		for _, f := range n.Values {
			key, _ := keyText(f.Key)
			m[key] = plain(f.Value)
		}
		return m
	case *ast.SequenceNode:
		s := make([]any, len(n.Values))
		for i, item := range n.Values {
			s[i] = plain(item)
		}
		return s
	}
	value, _ := scalarOf(n)
	return value
}

func keyText(k ast.MapKeyNode) (text string, ok bool) {
	switch k := k.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return k.GetToken().Value, true
	}
	return "", false
}

// fieldOf returns the field of a mapping with that key, or nil.
func fieldOf(n ast.Node, key string) *ast.MappingValueNode {
	m, _ := n.(*ast.MappingNode)
	if m == nil {
		return nil
	}
	for _, f := range m.Values {
		if text, _ := keyText(f.Key); text == key {
			return f
		}
	}
	return nil
}

// textOf returns the text of the scalar at the path of keys, or "".
func textOf(n ast.Node, keys ...string) string {
	for _, key := range keys {
		f := fieldOf(n, key)
		if f == nil {
			return ""
		}
		n = f.Value
	}
	_, text := scalarOf(n)
	return text
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

// deeper reports whether n is more than levels deep.
func deeper(n ast.Node, levels int) bool {
	if levels < 0 {
		return true
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		for _, f := range n.Values {
			if deeper(f.Value, levels-1) {
				return true
			}
		}
	case *ast.SequenceNode:
		for _, item := range n.Values {
			if deeper(item, levels-1) {
				return true
			}
		}
	}
	return false
}
