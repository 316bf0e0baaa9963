package profiles

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/goccy/go-yaml/ast"
)

// maxCopied bounds the tokens that overrides add to a tree, because one override can
// be set in many items.
var maxCopied = 1_000_000

// An override is path=value. Items of a list are named by their number, by the
// name in them, or all together by "*".
type override struct {
	*tree
	from  origin
	value string
}

// override sets all overrides in order. It returns an error for an override that
// cannot be parsed, or for a tree that is too deep to be decoded; other problems are
// kept in t.
func (t *tree) override(overrides []string) error {
	if t.root == nil && len(t.problems) == 0 {
		t.bad(t.origin.at(1), "", "there is nothing in it", "a profile needs name, lanes, upstream and schedule")
	}
	if t.root != nil && len(t.problems) == 0 && kindOf(t.root) != mapping {
		t.bad(
			t.origin.at(1),
			"",
			"is "+kindOf(t.root).String(),
			"a profile is a group of keys: "+strings.Join(keysOf(fieldsOf(nil, reflect.ValueOf(Profile{}))), ", "),
		)
	}
	if len(t.problems) > 0 {
		return newError(t.problems)
	}
	for i, text := range overrides {
		path, value, ok := strings.Cut(text, "=")
		path, value = strings.TrimSpace(path), strings.TrimSpace(value)
		if value != "" {
			t.dropTarget(path)
		}
		o := &override{t, origin{"override " + settings.Quote(text), i + 1}, value}
		if !ok || path == "" {
			o.bad("", "there is no path=value", "write it like lanes.push.subscriptions=1000")
			continue
		}
		o.apply(path)
	}
	if deeper(t.root, maxDepth) {
		return newError(t.problems)
	}
	return nil
}

func (o *override) bad(key, what, fix string) { o.tree.bad(o.from.at(0), key, what, fix) }

func (o *override) apply(path string) {
	keys := strings.SplitN(path, ".", maxDepth+1)
	if len(keys) > maxDepth {
		o.bad("", "its path is too long", fmt.Sprintf("at most %d keys are nested", maxDepth))
		return
	}
	_, read := o.read()
	for _, p := range read.problems {
		p.Key = path
		o.problems = append(o.problems, p)
	}
	if len(read.problems) > 0 {
		return
	}
	if o.set(o.root, keys, ""); deeper(o.root, maxDepth) {
		o.bad(path, "nested too deeply", fmt.Sprintf("at most %d levels are read", maxDepth))
	}
}

// read makes nodes of the value, new ones at each call, because each item needs its
// own.
func (o *override) read() (ast.Node, *tree) {
	t := &tree{copied: 1}
	// YAML would read a template as a mapping.
	if o.value != "" && !strings.HasPrefix(o.value, "{{") {
		t = readTree(o.from, []byte(o.value), 0)
	}
	switch n := t.root.(type) {
	case nil: // a comment is kept unchanged
		return textNode(o.value, 1), t
	case *ast.MappingNode:
		n.SetIsFlowStyle(true)
	case *ast.SequenceNode:
		n.SetIsFlowStyle(true)
	case *ast.LiteralNode:
		return textNode(n.Value.Value, 1), t
	}
	return t.root, t
}

// node returns the value nested below the keys of path.
func (o *override) node(path []string) ast.Node {
	n, read := o.read()
	o.copied += read.copied
	o.tree.from[n] = o.from
	for _, key := range slices.Backward(path) {
		m := mappingNode(0)
		m.Values = append(m.Values, fieldNode(textNode(key, 1), n))
		n = m
		o.tree.from[n] = o.from
	}
	return n
}

// set sets the value in n at the path. done is the part of the path that leads to n.
func (o *override) set(n ast.Node, path []string, done string) {
	key, rest := path[0], path[1:]
	here := join(done, key)
	switch n := n.(type) {
	case *ast.MappingNode:
		f := fieldOf(n, key)
		switch {
		case f == nil:
			add(n, key, o.node(rest))
		case len(rest) == 0 || isNull(f.Value): // a key without a value can become a group
			replace(f, o.node(rest))
		default:
			o.set(f.Value, rest, here)
		}
	case *ast.SequenceNode:
		chosen := choose(n, key)
		if len(chosen) == 0 {
			o.bad(here, "no such item", advise(key, itemNames(n)))
		}
		for _, i := range chosen {
			if o.copied > maxCopied {
				o.bad(here, "there is too much in all items together", "set less, or in fewer of them")
				return
			}
			if len(rest) == 0 || isNull(n.Values[i]) {
				n.Values[i] = o.node(rest)
			} else {
				o.set(n.Values[i], rest, here)
			}
		}
	default:
		o.bad(here, fmt.Sprintf("%s is a single value and has no keys", done), "shorten the path")
	}
}

// add adds a field to a group. A comment below the last field stays last.
func add(m *ast.MappingNode, key string, value ast.Node) {
	column := 1
	if !m.IsFlowStyle && len(m.Values) > 0 {
		column = m.Values[0].Key.GetToken().Position.Column
	}
	f := fieldNode(textNode(key, column), value)
	if len(m.Values) > 0 {
		last := m.Values[len(m.Values)-1]
		f.FootComment, last.FootComment = last.FootComment, nil
	}
	m.Values = append(m.Values, f)
}

// replace sets another value of a key and keeps the comment on its line.
func replace(f *ast.MappingValueNode, value ast.Node) {
	comment := f.Key.GetComment()
	if old := f.Value; comment == nil && (kindOf(old) == scalar || isFlow(old)) {
		comment = old.GetComment()
	}
	_ = f.Key.SetComment(nil)
	_ = value.SetComment(comment)
	f.Value = value
}

func isFlow(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.IsFlowStyle
	case *ast.SequenceNode:
		return n.IsFlowStyle
	}
	return false
}

// choose returns the indices of the items that key selects.
func choose(n *ast.SequenceNode, key string) []int {
	var chosen []int
	for i, item := range n.Values {
		if f := fieldOf(item, "name"); key == "*" || f != nil && kindOf(f.Value) == scalar && textOf(f.Value) == key {
			chosen = append(chosen, i)
		}
	}
	if i, err := strconv.Atoi(key); err == nil && len(chosen) == 0 && i >= 0 && i < len(n.Values) {
		chosen = append(chosen, i)
	}
	return chosen
}

func itemNames(n *ast.SequenceNode) []string {
	var names []string
	for i, item := range n.Values {
		name := textOf(item, "name")
		if name == "" {
			name = strconv.Itoa(i)
		}
		names = append(names, name)
	}
	return slices.Compact(names)
}

// ofOtherTargets are the keys of target that an override of the target replaces: those that name
// another target, or belong to one.
var ofOtherTargets = map[string][]string{
	"target.url":     {"embedded", "command", "env", "dir"},
	"target.command": {"embedded", "url", "headers", "tokens", "tokenFile", "oauth", "caFile", "allow"},
}

// dropTarget removes the target of the file when an override names one of another kind, so that
// a profile can be tried on any server. It keeps what overrides set there.
func (t *tree) dropTarget(path string) {
	f := fieldOf(t.root, "target")
	if f == nil || ofOtherTargets[path] == nil {
		return
	}
	if target, ok := f.Value.(*ast.MappingNode); ok {
		target.Values = slices.DeleteFunc(target.Values, func(f *ast.MappingValueNode) bool {
			key, _ := keyText(f.Key)
			return slices.Contains(ofOtherTargets[path], key) && t.ofFile(f.Value)
		})
	}
}

// ofFile reports whether nothing in n came from an override. Otherwise it removes the parts that
// did not.
func (t *tree) ofFile(n ast.Node) bool {
	if _, ok := t.from[n]; ok {
		return false
	}
	m, ok := n.(*ast.MappingNode)
	if !ok {
		return true
	}
	m.Values = slices.DeleteFunc(m.Values, func(f *ast.MappingValueNode) bool { return t.ofFile(f.Value) })
	return len(m.Values) == 0
}
