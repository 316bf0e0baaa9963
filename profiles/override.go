package profiles

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// override sets path=value in the tree. Items of a list are named by their
// number, by the name in them, or all together by "*".
func override(root *node, text string, number int) []Problem {
	where := "override " + quote(text)
	r := &reader{where: func(int) string { return where }, over: overLine + number}
	path, value, ok := strings.Cut(text, "=")
	path = strings.TrimSpace(path)
	if !ok || path == "" {
		r.bad(0, "", "there is no path=value", "write it like lanes.push.subscriptions=1000")
		return r.problems
	}
	keys := strings.SplitN(path, ".", maxDepth+1)
	if len(keys) > maxDepth {
		r.bad(0, "", "its path is too long", fmt.Sprintf("at most %d keys are nested", maxDepth))
		return r.problems
	}
	set := r.value(value, path)
	if len(r.problems) > 0 {
		return r.problems
	}
	if r.set(root, keys, "", set); root.deeper(maxDepth) {
		r.bad(0, path, "nested too deeply", fmt.Sprintf("at most %d levels are read", maxDepth))
	}
	return r.problems
}

// overrideAll sets all overrides in their order.
func overrideAll(root *node, overrides []string) (problems []Problem) {
	for i, o := range overrides {
		path, value, _ := strings.Cut(o, "=")
		if path = strings.TrimSpace(path); (path == "target.url" || path == "target.command") && strings.TrimSpace(value) != "" {
			root.dropEmbedded()
		}
		problems = append(problems, override(root, o, i)...)
	}
	return problems
}

// dropEmbedded takes out how the embedded target of a file behaves, which
// another one is named in place of: that is how a profile is tried on a server.
// What overrides say of it stays, and a file that names a target of its own has
// no use for it: both are errors.
func (n *node) dropEmbedded() {
	target := n.field("target")
	if target == nil || target.field("url") != nil || target.field("command") != nil {
		return
	}
	target.fields = slices.DeleteFunc(target.fields, func(f field) bool { return f.key == "embedded" && f.value.ofFile() })
}

// ofFile tells whether nothing in n came from an override, and takes out what
// did not where something did.
func (n *node) ofFile() bool {
	if n.line >= overLine {
		return false
	}
	n.fields = slices.DeleteFunc(n.fields, func(f field) bool { return f.value.ofFile() })
	return len(n.fields) == 0
}

// UpstreamKind is the kind of upstream that [Load] would give a profile with
// these overrides, read without checking anything else: inject where it does not
// say. An error of reading is that of Load.
func UpstreamKind(nameOrPath string, overrides []string) (string, error) {
	name, data, err := source(nameOrPath)
	if err != nil {
		return "", err
	}
	r := &reader{where: func(line int) string { return name + ":" + strconv.Itoa(line) }}
	root := r.read(data)
	if root == nil || root.kind != mapping || len(r.problems) > 0 {
		_, err := Parse(name, data, overrides)
		return "", err
	}
	overrideAll(root, overrides)
	if u := root.field("upstream"); u != nil {
		if k := u.field("kind"); k != nil && k.kind == scalar && k.text != "" {
			return k.text, nil
		}
	}
	return defaultProfile().Upstream.Kind, nil
}

// overLine is above every line of a file.
const overLine = 1 << 30

func (r *reader) value(text, path string) *node {
	text = strings.TrimSpace(text)
	plain := &node{where: r.where(0), line: r.over, value: text, text: text}
	// A template would be read as a YAML mapping.
	if text == "" || strings.HasPrefix(text, "{{") {
		return plain
	}
	n := r.read([]byte(text))
	for i := range r.problems {
		r.problems[i].Key = path
	}
	if n == nil {
		return plain // nothing but a comment: taken as it stands
	}
	return n
}

func (r *reader) set(n *node, path []string, done string, value *node) {
	key, rest := path[0], path[1:]
	here := join(done, key)
	switch n.kind {
	case mapping:
		for i := range n.fields {
			if n.fields[i].key != key {
				continue
			}
			if len(rest) == 0 {
				n.fields[i].value = value
			} else {
				r.set(n.fields[i].value, rest, here, value)
			}
			return
		}
		child := value
		if len(rest) > 0 {
			child = &node{where: r.where(0), line: r.over, kind: mapping}
			r.set(child, rest, here, value)
		}
		n.fields = append(n.fields, field{key, child})
	case sequence:
		chosen := n.choose(key)
		if len(chosen) == 0 {
			r.bad(0, here, "no such item", advise(key, n.names()))
			return
		}
		for _, i := range chosen {
			if len(rest) == 0 {
				n.items[i] = value
			} else {
				r.set(n.items[i], rest, here, value)
			}
		}
	default:
		if n.value == nil { // a key without a value can become a group
			n.kind = mapping
			r.set(n, path, done, value)
			return
		}
		r.bad(0, here, fmt.Sprintf("%s is a single value and has no keys", done), "shorten the path")
	}
}

// choose returns the indices of the items that key means.
func (n *node) choose(key string) []int {
	var chosen []int
	for i, item := range n.items {
		if name := item.field("name"); key == "*" || name != nil && name.kind == scalar && name.text == key {
			chosen = append(chosen, i)
		}
	}
	if i, err := strconv.Atoi(key); err == nil && len(chosen) == 0 && i >= 0 && i < len(n.items) {
		chosen = append(chosen, i)
	}
	return chosen
}

func (n *node) names() []string {
	var names []string
	for i, item := range n.items {
		if name := item.field("name"); name != nil && name.text != "" {
			names = append(names, name.text)
		} else {
			names = append(names, strconv.Itoa(i))
		}
	}
	return slices.Compact(names)
}
