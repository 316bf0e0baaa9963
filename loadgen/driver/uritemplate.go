package driver

import (
	"encoding/json"
	"fmt"

	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// TemplateValues returns the arguments of subscription i as values for the variables of
// a URI template.
func (l *Lane[T]) TemplateValues(i int) (map[string]any, error) {
	values := map[string]any{}
	if l.Opts.Arguments == nil {
		return values, nil
	}
	raw := l.Opts.Arguments(i)
	if len(raw) == 0 {
		return values, nil
	}
	var args map[string]json.RawMessage
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, fmt.Errorf("%w: arguments %s are not a JSON object", mcpclient.ErrInvalid, errtext.Line(string(raw)))
	}
	for name, v := range args {
		text, err := plainText(v)
		if err != nil {
			return nil, fmt.Errorf("%w: argument %s: %w", mcpclient.ErrInvalid, name, err)
		}
		values[name] = text
	}
	return values, nil
}

// plainText converts a JSON value to a value for a template.
func plainText(raw json.RawMessage) (any, error) {
	switch raw[0] {
	case '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	case '[':
		var list []string
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, fmt.Errorf("%s: a list may hold text only", errtext.Line(string(raw)))
		}
		return list, nil
	case '{', 'n':
		return nil, fmt.Errorf("%s: use text, numbers, true, false or a list of texts", errtext.Line(string(raw)))
	}
	return string(raw), nil // a number or a boolean
}

// ExpandURI expands a URI template of RFC 6570. The errors wrap [mcpclient.ErrInvalid].
func ExpandURI(template string, values map[string]any) (string, error) {
	t, err := wire.ParseURITemplate(template)
	if err != nil {
		return "", fmt.Errorf("%w: URI template %s: %w", mcpclient.ErrInvalid, errtext.Line(template), err)
	}
	uri, err := t.Expand(values)
	if err != nil {
		return "", fmt.Errorf("%w: URI template %s: %w", mcpclient.ErrInvalid, errtext.Line(template), err)
	}
	return uri, nil
}
