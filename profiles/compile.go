package profiles

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/eventmeter/eventmeter/internal/settings"
)

// LaneTemplates gives the values that differ between the subscriptions of a lane. It is safe for
// concurrent use.
type LaneTemplates struct {
	arguments []part
	sources   []part
	all       bool     // every subscription has every source
	same      []uint16 // sources of every subscription, if sources is not a template
	highest   uint16   // of all sources of all subscriptions
}

// CompileLane compiles the templates of a lane once. It fails when one of them
// is wrong for any of the lane's subscriptions.
func CompileLane(l Lane) (*LaneTemplates, error) {
	t := &LaneTemplates{}
	var err error
	if t.arguments, err = compileJSON(l.Arguments, perSubscription); err != nil {
		return nil, fmt.Errorf("lane %s: arguments: %w", l.Name, err)
	}
	if err := t.compileSources(l); err != nil {
		return nil, fmt.Errorf("lane %s: sources: %w", l.Name, err)
	}
	return t, nil
}

// maxWork bounds the text of sources that is evaluated for all subscriptions of a
// lane, in bytes.
const maxWork = 1 << 30

func (t *LaneTemplates) compileSources(l Lane) error {
	text := strings.TrimSpace(l.Sources)
	if text == "" || text == "all" {
		t.all = true
		return nil
	}
	if l.HasNoSources() {
		t.same = []uint16{}
		return nil
	}
	var err error
	if t.sources, err = (compiler{scope: perSubscription}).text(text); err != nil {
		return err
	}
	first, err := t.list(0)
	if err != nil {
		return err
	}
	t.highest = slices.Max(first)
	if !strings.Contains(text, "{{") {
		t.same = first
		return nil
	}
	if most := maxWork / max(len(text), len(fmt.Sprint(first))); l.Subscriptions > most {
		return fmt.Errorf("it is too long for %d subscriptions; make it shorter, or give at most %d subscriptions", l.Subscriptions, most)
	}
	for i := 1; i < l.Subscriptions; i++ {
		list, err := t.list(i)
		if err != nil {
			return fmt.Errorf("for subscription %d: %w", i, err)
		}
		t.highest = max(t.highest, slices.Max(list))
	}
	return nil
}

// Arguments returns the arguments of subscription i as a JSON object. The
// caller owns it.
func (t *LaneTemplates) Arguments(i int) json.RawMessage {
	return run(nil, t.arguments, &env{Index: i})
}

// Sources returns the numbers of the sources of subscription i, ascending and without duplicates.
// Nil means all sources; an empty list that is not nil means none. i must be below the lane's
// Subscriptions. The caller must not change it.
func (t *LaneTemplates) Sources(i int) []uint16 {
	if t.all || t.same != nil {
		return t.same
	}
	list, err := t.list(i)
	if err != nil {
		panic(fmt.Sprintf("profiles: subscription %d was not checked: %v", i, err))
	}
	return list
}

func (t *LaneTemplates) list(i int) ([]uint16, error) {
	text := string(run(nil, t.sources, &env{Index: i}))
	var list []uint16
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseUint(strings.TrimSpace(word), 10, 16)
		if err != nil {
			return nil, fmt.Errorf(
				"%s is not a source; write numbers from 0 with commas between them, or all",
				settings.Quote(strings.TrimSpace(word)),
			)
		}
		list = append(list, uint16(n))
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// CompilePayload compiles the payload of an upstream. The returned function appends
// the payload as a JSON object to dst. It is safe for concurrent use, and allocates
// nothing if all templates are bare values such as {{.Probe}}.
func CompilePayload(u Upstream) (func(dst []byte, source int, seq uint32, probe string) []byte, error) {
	parts, err := compileJSON(u.Payload, perEmission)
	if err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	return func(dst []byte, source int, seq uint32, probe string) []byte {
		return run(dst, parts, &env{Source: source, Seq: int(seq), Probe: probe})
	}, nil
}

// CompileText compiles a text over .Source, .Seq and .Probe. The returned function is
// safe for concurrent use.
func CompileText(text string) (func(source int, seq uint32, probe string) string, error) {
	parts, err := compiler{scope: perEmission}.text(text)
	if err != nil {
		return nil, err
	}
	return func(source int, seq uint32, probe string) string {
		return string(run(nil, parts, &env{Source: source, Seq: int(seq), Probe: probe}))
	}, nil
}

// CompileHTTP compiles the request of an http upstream. The returned function is safe
// for concurrent use, and its results belong to the caller. Values are put into URL,
// headers and body without escaping. Without a body of its own, the request carries
// the upstream's payload as JSON. A body that begins like JSON is sent as
// application/json unless the headers say otherwise.
func CompileHTTP(up Upstream) (func(source int, seq uint32, probe string) (url string, header http.Header, body []byte), error) {
	c := compiler{scope: perEmission}
	u := up.HTTP
	url, err := c.text(u.URL)
	if err != nil {
		return nil, fmt.Errorf("http.url: %w", err)
	}
	body, err := c.text(u.Body)
	if err != nil {
		return nil, fmt.Errorf("http.body: %w", err)
	}
	headers := make(map[string][]part, len(u.Headers))
	isJSON := u.Body == "" && up.Payload != nil
	if isJSON {
		if body, err = compileJSON(up.Payload, perEmission); err != nil {
			return nil, fmt.Errorf("payload: %w", err)
		}
	}
	text := strings.TrimLeft(u.Body, " \t\r\n")
	object := strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "{{") // {{ begins a template
	if isJSON || object || strings.HasPrefix(text, "[") {
		headers["Content-Type"] = []part{{constant: []byte("application/json")}}
	}
	for _, name := range slices.Sorted(maps.Keys(u.Headers)) {
		parts, err := c.text(u.Headers[name])
		if err != nil {
			return nil, fmt.Errorf("http.headers.%s: %w", name, err)
		}
		headers[http.CanonicalHeaderKey(name)] = parts
	}
	return func(source int, seq uint32, probe string) (string, http.Header, []byte) {
		e := &env{Source: source, Seq: int(seq), Probe: probe}
		h := make(http.Header, len(headers))
		for name, parts := range headers {
			h[name] = []string{string(run(nil, parts, e))}
		}
		return string(run(nil, url, e)), h, run(nil, body, e)
	}, nil
}

// compileJSON compiles an object whose strings are templates. Keys are sorted,
// so that equal arguments have equal bytes.
func compileJSON(object map[string]any, s scope) ([]part, error) {
	c := compiler{scope: s, json: true}
	parts, err := compileValue(object, c)
	if err != nil {
		return nil, err
	}
	parts = merge(parts)
	for i := range samples {
		if len(run(nil, parts, &samples[i])) > maxOutput {
			return nil, fmt.Errorf("its texts are more than %d KiB together; make them shorter", maxOutput>>10)
		}
	}
	return parts, nil
}

func compileValue(v any, c compiler) ([]part, error) {
	switch v := v.(type) {
	case string:
		return c.text(v)
	case map[string]any:
		parts := []part{{constant: []byte{'{'}}}
		for i, key := range slices.Sorted(maps.Keys(v)) {
			var lead []byte
			if i > 0 {
				lead = append(lead, ',')
			}
			parts = append(parts, part{constant: append(appendJSONString(lead, key), ':')})
			inner, err := compileValue(v[key], c)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			parts = append(parts, inner...)
		}
		return append(parts, part{constant: []byte{'}'}}), nil
	case []any:
		parts := []part{{constant: []byte{'['}}}
		for i, item := range v {
			if i > 0 {
				parts = append(parts, part{constant: []byte{','}})
			}
			inner, err := compileValue(item, c)
			if err != nil {
				return nil, fmt.Errorf("%d: %w", i, err)
			}
			parts = append(parts, inner...)
		}
		return append(parts, part{constant: []byte{']'}}), nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("%w; use text, numbers, true, false, null, lists and groups", err)
	}
	return []part{{constant: text}}, nil
}

// appendJSONString appends s as JSON without HTML escapes, so that the profile's text
// is sent unchanged.
func appendJSONString(dst []byte, s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte{'\n'})...)
}
