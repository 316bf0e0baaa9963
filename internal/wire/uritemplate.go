package wire

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// URITemplate is a URI template of RFC 6570, all four levels. It is safe for
// concurrent use.
type URITemplate struct {
	parts []templatePart
}

// templatePart is a literal, or an expression with variables.
type templatePart struct {
	literal string
	how     *templateOperator
	vars    []templateVar
}

type templateVar struct {
	name    string
	explode bool
	prefix  int // characters; 0 = all
}

// templateOperator is a row of the table in the RFC's appendix A.
type templateOperator struct {
	first, sep string
	named      bool
	ifEmpty    string
	reserved   bool // reserved characters stay as they are
}

var templateOperators = map[byte]*templateOperator{
	0:   {"", ",", false, "", false},
	'+': {"", ",", false, "", true},
	'#': {"#", ",", false, "", true},
	'.': {".", ".", false, "", false},
	'/': {"/", "/", false, "", false},
	';': {";", ";", true, "", false},
	'?': {"?", "&", true, "=", false},
	'&': {"&", "&", true, "=", false},
}

// ParseURITemplate reads a template. The error says what is wrong with it.
func ParseURITemplate(text string) (*URITemplate, error) {
	t := &URITemplate{}
	for text != "" {
		open := strings.IndexAny(text, "{}")
		if open < 0 {
			open = len(text)
		}
		if open > 0 {
			t.parts = append(t.parts, templatePart{literal: string(appendPercent(nil, text[:open], true))})
		}
		if text = text[open:]; text == "" {
			break
		}
		end := strings.IndexByte(text, '}')
		if text[0] == '}' || end < 0 {
			return nil, fmt.Errorf("a brace without its other at %q", text)
		}
		part, err := parseExpression(text[1:end])
		if err != nil {
			return nil, err
		}
		t.parts = append(t.parts, part)
		text = text[end+1:]
	}
	return t, nil
}

func parseExpression(text string) (part templatePart, err error) {
	part.how = templateOperators[0]
	if text != "" && strings.IndexByte("+#./;?&", text[0]) >= 0 {
		part.how, text = templateOperators[text[0]], text[1:]
	}
	for spec := range strings.SplitSeq(text, ",") {
		var v templateVar
		v.name = spec
		if name, ok := strings.CutSuffix(spec, "*"); ok {
			v.name, v.explode = name, true
		} else if name, digits, ok := strings.Cut(spec, ":"); ok {
			v.name = name
			if v.prefix, err = strconv.Atoi(digits); err != nil || v.prefix < 1 || v.prefix > 9999 {
				return part, fmt.Errorf("the expression {%s} has a prefix that is not 1 to 9999", text)
			}
		}
		bad := func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_.%", r)
		}
		if v.name == "" || strings.ContainsFunc(v.name, bad) {
			return part, fmt.Errorf("the expression {%s} names no variable in %q", text, spec)
		}
		part.vars = append(part.vars, v)
	}
	return part, nil
}

// Names returns the template's variables, each once, in order.
func (t *URITemplate) Names() (names []string) {
	for _, p := range t.parts {
		for _, v := range p.vars {
			if !slices.Contains(names, v.name) {
				names = append(names, v.name)
			}
		}
	}
	return names
}

// Expand fills in values, which are texts (string), lists ([]string) or
// associations (map[string]string, written by rising keys). A variable without a
// value, or with any other, is undefined and left out.
func (t *URITemplate) Expand(values map[string]any) string {
	var out []byte
	for i := range t.parts {
		p := &t.parts[i]
		if p.how == nil {
			out = append(out, p.literal...)
			continue
		}
		before := p.how.first
		for _, v := range p.vars {
			if text, ok := p.how.expand(v, values[v.name]); ok {
				out = append(append(out, before...), text...)
				before = p.how.sep
			}
		}
	}
	return string(out)
}

// expand writes one variable; false if it is undefined.
func (o *templateOperator) expand(v templateVar, value any) (out []byte, defined bool) {
	switch value := value.(type) {
	case string:
		if v.prefix > 0 {
			value = firstRunes(value, v.prefix)
		}
		return appendPercent(o.name(nil, v.name, value == ""), value, o.reserved), true
	case []string:
		if len(value) == 0 {
			return nil, false
		}
		if !v.explode {
			out = o.name(out, v.name, false)
		}
		for i, item := range value {
			switch {
			case i > 0 && v.explode:
				out = append(out, o.sep...)
			case i > 0:
				out = append(out, ',')
			}
			if v.explode {
				out = o.name(out, v.name, item == "")
			}
			out = appendPercent(out, item, o.reserved)
		}
		return out, true
	case map[string]string:
		if len(value) == 0 {
			return nil, false
		}
		between, equals := ",", ","
		if v.explode {
			between, equals = o.sep, "="
		} else {
			out = o.name(out, v.name, false)
		}
		for i, key := range slices.Sorted(maps.Keys(value)) {
			if i > 0 {
				out = append(out, between...)
			}
			out = appendPercent(out, key, o.reserved)
			if item := value[key]; item != "" || !v.explode || !o.named {
				out = appendPercent(append(out, equals...), item, o.reserved)
			} else {
				out = append(out, o.ifEmpty...)
			}
		}
		return out, true
	}
	return nil, false
}

// name writes the name in front of a value, where the operator has one.
func (o *templateOperator) name(dst []byte, name string, empty bool) []byte {
	if !o.named {
		return dst
	}
	dst = append(dst, name...)
	if empty {
		return append(dst, o.ifEmpty...)
	}
	return append(dst, '=')
}

func firstRunes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// appendPercent percent-encodes the bytes of s that are not unreserved. With
// reserved, reserved characters and triplets that are there already stay.
func appendPercent(dst []byte, s string, reserved bool) []byte {
	const upper = "0123456789ABCDEF"
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._~", c) >= 0,
			reserved && c < utf8.RuneSelf && strings.IndexByte(":/?#[]@!$&'()*+,;=", c) >= 0,
			reserved && c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			dst = append(dst, c)
		default:
			dst = append(dst, '%', upper[c>>4], upper[c&15])
		}
	}
	return dst
}
