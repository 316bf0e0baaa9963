package profiles

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// YAML writes the profile so that [Parse] gives the same value again. Defaults
// are left out. Unlike the JSON form it holds the secrets: headers and tokens.
func (p *Profile) YAML() ([]byte, error) {
	n, err := encoder{p.systems}.encode(reflect.ValueOf(*p), reflect.ValueOf(defaultProfile(p.systems)), 1)
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w", p.Name, err)
	}
	return []byte(n.String() + "\n"), nil
}

type encoder struct{ systems Systems }

// encode makes nodes of v, whose keys and items begin in that column. Fields of a
// struct that are equal to those of standard are left out.
func (e encoder) encode(v, standard reflect.Value, column int) (ast.Node, error) {
	switch x := v.Interface().(type) {
	case fmt.Stringer: // durations, rates, amounts
		return textNode(x.String(), column), nil
	case Lane:
		standard = reflect.ValueOf(defaultLaneOf(e.systems, x.Mode, x.System, x.Client))
	case Capacity:
		standard = reflect.ValueOf(defaultCapacity())
	}
	switch v.Kind() {
	case reflect.Interface:
		if v.IsNil() {
			return ast.Null(token.New("null", "null", &token.Position{Column: column})), nil
		}
		return e.encode(v.Elem(), standard, column)
	case reflect.Struct:
		m := mappingNode(column)
		plain := fieldsOf(e.systems, standard)
		for i, f := range fieldsOf(e.systems, v) {
			if reflect.DeepEqual(f.value.Interface(), plain[i].value.Interface()) {
				continue
			}
			if err := e.field(m, f.key, f.value, plain[i].value, column); err != nil {
				return nil, err
			}
		}
		return m, nil
	case reflect.Map:
		m := mappingNode(column)
		keys := slices.SortedFunc(
			slices.Values(v.MapKeys()),
			func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) },
		)
		for _, key := range keys {
			if err := e.field(m, key.String(), v.MapIndex(key), reflect.Value{}, column); err != nil {
				return nil, err
			}
		}
		return m, nil
	case reflect.Slice:
		s := ast.Sequence(token.SequenceStart("[", &token.Position{Column: column}), v.Len() == 0)
		for i := range v.Len() {
			item, err := e.encode(v.Index(i), reflect.Zero(v.Type().Elem()), column+2)
			if err != nil {
				return nil, err
			}
			s.Values = append(s.Values, item)
		}
		return s, nil
	}
	return scalarNode(v, column)
}

func (e encoder) field(m *ast.MappingNode, key string, v, standard reflect.Value, column int) error {
	value, err := e.encode(v, standard, column+2)
	if err == nil {
		m.Values = append(m.Values, fieldNode(textNode(key, column), value))
	}
	return err
}

func scalarNode(v reflect.Value, column int) (ast.Node, error) {
	var text string
	switch v.Kind() {
	case reflect.String:
		return textNode(v.String(), column), nil
	case reflect.Bool:
		text = strconv.FormatBool(v.Bool())
	case reflect.Int, reflect.Int64:
		text = strconv.FormatInt(v.Int(), 10)
	case reflect.Uint64:
		text = strconv.FormatUint(v.Uint(), 10)
	case reflect.Float64:
		text = strconv.FormatFloat(v.Float(), 'g', -1, 64)
		if !strings.ContainsAny(text, ".e") {
			text += ".0" // so that it is not read as a whole number
		}
	default:
		return nil, fmt.Errorf("a %s cannot be written; use text, numbers, true, false, null, lists and groups", v.Type())
	}
	return ast.String(token.String(text, text, &token.Position{Column: column})), nil
}

// A bare word begins with a letter and has no other meaning in YAML.
var (
	bareWord = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_./-]*$`)
	reserved = regexp.MustCompile(`(?i)^(true|false|null|yes|no|on|off|y|n)$`)
)

// textNode is text as a bare word, or in double quotes.
func textNode(text string, column int) *ast.StringNode {
	at := &token.Position{Column: column}
	if bareWord.MatchString(text) && !reserved.MatchString(text) {
		return ast.String(token.String(text, text, at))
	}
	text = strings.ToValidUTF8(text, "\ufffd")
	return ast.String(token.DoubleQuote(text, text, at))
}

// mappingNode is an empty group; with column 0, one that is written on one line.
func mappingNode(column int) *ast.MappingNode {
	return ast.Mapping(token.MappingStart("{", &token.Position{Column: max(column, 1)}), column == 0)
}

func fieldNode(key ast.MapKeyNode, value ast.Node) *ast.MappingValueNode {
	return ast.MappingValue(token.MappingValue(&token.Position{}), key, value)
}
