package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/report"
	"github.com/eventmeter/eventmeter/internal/stats"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

const knownToken = "tok-3f9a7c51e2"

// hostileTexts are what a target may say to forge the output of a run, or to give
// away what it was sent.
var hostileTexts = map[string]string{
	"a colour":             "red \x1b[31malert\x1b[0m",
	"a window title":       "\x1b]0;owned\a rest",
	"a link":               "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
	"eight-bit controls":   "a\u009b31mb\u009d0;t\u009cc",
	"a line for GitHub":    "no\n::error title=forged::all is lost",
	"a command alone":      "::set-output name=x::y",
	"the old GitHub form":  "x ##[error]forged",
	"a line for Azure":     "x\r\n##vso[task.complete result=Succeeded;]done",
	"a line for TeamCity":  "x\n##teamcity[testFinished name='a']",
	"a section for GitLab": "x\r\x1b[0Ksection_end:1:eventmeter\r\x1b[0K",
	"a carriage return":    "1000 lost\r0 lost",
	"backspaces":           "bad\b\b\bok",
	"right to left":        "safe\u202etxt.exe",
	"a line separator":     "a\u2028::error::b",
	"no text at all":       "\xff\xfe\x00\x7f",
	"the token":            "you sent Bearer " + knownToken + ", did you not?",
	"the token, coloured":  knownToken[:6] + "\x1b[0m" + knownToken[6:],
}

// forged finds lines that a CI system would take for a command.
var forged = regexp.MustCompile(`(?m)^\s*::[a-z-]+|##\[|##vso\[|##teamcity\[|section_(start|end):`)

// wrongWith says what of an output must not be there; own are the commands of ours.
func wrongWith(text string, own func(line string) bool) string {
	if strings.Contains(text, knownToken) {
		return "the token"
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if own != nil && own(line) {
			line = strings.TrimLeft(line, "#:") // only its beginning is ours
			line = strings.NewReplacer("\x1b[0K", "", "\r", "").Replace(line)
			if strings.HasPrefix(line, "section_") {
				continue
			}
		}
		for _, r := range line {
			if unicode.IsControl(r) && r != '\t' || r >= 0x80 && unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp) {
				return fmt.Sprintf("the character %U in %q", r, line)
			}
		}
		if !strings.Contains(line, "::") && !strings.Contains(line, "##") && !strings.Contains(line, "section_") {
			continue // most lines, quickly
		}
		if found := forged.FindString(line); found != "" {
			return fmt.Sprintf("%q in %q", found, line)
		}
	}
	return ""
}

// fill sets every text that v holds.
func fill(v reflect.Value, text string, depth int) {
	if depth == 0 {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text, depth-1)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && v.Field(i).CanSet() {
				fill(v.Field(i), text, depth-1)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), text, depth-1)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, text, depth-1)
		fill(value, text, depth-1)
		v.SetMapIndex(key, value)
	}
}

// TestHostileTextInOutputs puts every hostile text into every text of a result, and
// renders all there is.
func TestHostileTextInOutputs(t *testing.T) {
	ours := map[string]func(string) bool{
		"github":   func(l string) bool { return strings.HasPrefix(l, "::") },
		"azure":    func(l string) bool { return strings.HasPrefix(l, "##vso[") },
		"teamcity": func(l string) bool { return strings.HasPrefix(l, "##teamcity[") },
		"gitlab":   func(l string) bool { return strings.HasPrefix(l, "\x1b[0Ksection_") },
	}
	outputs := map[string]func(io.Writer, *results.Result) error{
		"text":     report.Text,
		"markdown": report.Markdown,
		"junit":    func(w io.Writer, r *results.Result) error { return report.JUnit(w, r) },
		"html": func(w io.Writer, r *results.Result) error {
			return report.HTML(w, []report.Page{{Name: "a", Result: r}})
		},
		"result.json": func(w io.Writer, r *results.Result) error {
			e := json.NewEncoder(w)
			e.SetEscapeHTML(false)
			return e.Encode(r)
		},
	}
	for system := range ours {
		outputs[system] = func(w io.Writer, r *results.Result) error { return report.Annotations(w, r, system) }
	}
	for what, text := range hostileTexts {
		for name, write := range outputs {
			var r results.Result
			fill(reflect.ValueOf(&r).Elem(), text, 9)
			r.Thresholds = append(r.Thresholds, results.Verdict{Threshold: text, Lane: text, Text: text})
			r.Profile = json.RawMessage(`{"target":{"url":"http://me:hunter22@h/p?key=` + knownToken + `"}}`)
			errtext.NewSecrets(knownToken).ScrubAll(&r)
			var out bytes.Buffer
			if err := write(&out, &r); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got := out.String()
			if name == "html" { // what the page brings along is ours
				got = withoutOwnScripts(got)
			}
			if wrong := wrongWith(got, ours[name]); wrong != "" {
				t.Errorf("%s in %s: %s", what, name, wrong)
			}
			if strings.Contains(got, "hunter22") {
				t.Errorf("%s in %s: the password of a URL", what, name)
			}
		}
	}
}

// hostileServer answers every request with what answer makes of it.
func hostileServer(t *testing.T, answer func(method string, id json.RawMessage) (status int, body string)) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&m) // what is no message has no method
		status, body := answer(m.Method, m.ID)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/mcp"
}

// TestHostileTextAtEntrances has a target say every hostile text wherever it can say
// something, and looks at the error line and at what discover found.
func TestHostileTextAtEntrances(t *testing.T) {
	t.Parallel()
	result := func(id json.RawMessage, r string) (int, string) {
		return 200, `{"jsonrpc":"2.0","id":` + string(id) + `,"result":` + r + `}`
	}
	const served = `{"protocolVersion":"2025-06-18","capabilities":{"experimental":{"events":{}}},"serverInfo":{"name":"s","version":"1"}}`
	listing := func(entry string) func(string, json.RawMessage) (int, string) {
		return func(method string, id json.RawMessage) (int, string) {
			switch method {
			case "initialize":
				return result(id, served)
			case "events/list":
				return result(id, `{"events":[`+entry+`]}`)
			case "notifications/initialized":
				return 202, ""
			}
			return 200, `{"jsonrpc":"2.0","id":` + string(id) + `,"error":{"code":-32601,"message":"no"}}`
		}
	}
	for what, text := range hostileTexts {
		quoted, err := json.Marshal(text)
		must(t, err)
		q := string(quoted)
		rpc := func(e string) func(string, json.RawMessage) (int, string) {
			return func(_ string, id json.RawMessage) (int, string) {
				return 400, `{"jsonrpc":"2.0","id":` + string(id) + `,"error":` + e + `}`
			}
		}
		for entrance, answer := range map[string]func(string, json.RawMessage) (int, string){
			"a JSON-RPC error":  rpc(`{"code":-32000,"message":` + q + `}`),
			"its reason":        rpc(`{"code":-32000,"message":"m","data":{"reason":` + q + `}}`),
			"an exceeded limit": rpc(`{"code":-32013,"message":"m","data":{"limit":` + q + `}}`),
			"a body":            func(string, json.RawMessage) (int, string) { return 500, text },
			"the server's name": func(method string, id json.RawMessage) (int, string) {
				if method == "initialize" {
					return result(id, `{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":`+q+`,"version":`+q+`}}`)
				}
				return listing("")(method, id)
			},
			"an event's name": listing(`{"name":` + q + `,"description":` + q + `,"delivery":["poll"]}`),
			"a delivery mode": listing(`{"name":"chat.message","delivery":[` + q + `]}`),
			"a protocol version": func(_ string, id json.RawMessage) (int, string) {
				return result(id, `{"protocolVersion":`+q+`,"supportedVersions":[`+q+`],"capabilities":{}}`)
			},
		} {
			target := profiles.Target{URL: hostileServer(t, answer), Tokens: []string{knownToken}, Era: "legacy"}
			found, err := DiscoverTarget(t.Context(), target, nil, "test")
			said := fmt.Sprint(err)
			if err == nil {
				text, err := json.Marshal(found)
				must(t, err)
				said = string(text) + strings.Join(eventNames(found.Offer), "\n") + found.Offer.Server
			}
			if wrong := wrongWith(said, nil); wrong != "" {
				t.Errorf("%s as %s: discover: %s", what, entrance, wrong)
			}
			if !slices.Contains([]string{"a link", "a line for GitHub", "right to left", "no text at all", "the token, coloured"}, what) {
				continue // a run cleans what it is told as discover does: a text of each kind shows whether it does
			}
			p := hostileProfile(t, target.URL)
			out, err := Run(t.Context(), Options{Profile: p, Version: "test"})
			if err == nil && !strings.Contains(entrance, "version") && !strings.Contains(entrance, "server") {
				t.Errorf("%s as %s: the run succeeded", what, entrance)
			}
			if wrong := wrongWith(fmt.Sprint(err), nil); wrong != "" {
				t.Errorf("%s as %s: run: %s", what, entrance, wrong)
			}
			if out != nil {
				text, err := json.Marshal(out.Result)
				must(t, err)
				if wrong := wrongWith(string(text), nil); wrong != "" {
					t.Errorf("%s as %s: result: %s", what, entrance, wrong)
				}
			}
		}
		if runtime.GOOS == "windows" {
			continue
		}
		target := profiles.Target{
			Command: []string{"sh", "-c", `printf '%s' "$SAID" >&2`},
			Env:     map[string]string{"SAID": strings.ReplaceAll(text, "\x00", "")},
		}
		_, err = DiscoverTarget(t.Context(), target, nil, "test")
		if err == nil || !errors.Is(err, ErrTarget) {
			t.Errorf("%s on standard error: %v", what, err)
		}
		if wrong := wrongWith(fmt.Sprint(err), nil); wrong != "" {
			t.Errorf("%s on standard error: %s", what, wrong)
		}
	}
}

func hostileProfile(t *testing.T, url string) *profiles.Profile {
	t.Helper()
	p, err := profiles.Parse("hostile.yaml", []byte(`name: hostile
lanes:
  - {name: poll, mode: poll, subscriptions: 1, event: chat.message, arguments: {channel: a}}
upstream: {kind: none}
phases: {ready: 300ms, warmup: 0, measure: 100ms, drain: 100ms}
`), []string{"target.url=" + url, "target.tokens=[" + knownToken + "]", "target.era=legacy"}, systems.Table)
	must(t, err)
	return p
}

// TestHostileTextOfArchives: an archive may be somebody else's. What stands in its
// texts is cleaned when it is read, in whatever form it is shown.
func TestHostileTextOfArchives(t *testing.T) {
	outputs := map[string]func(io.Writer, *results.Result, *results.Capacity, *stats.Comparison) error{
		"report, text": func(w io.Writer, r *results.Result, _ *results.Capacity, _ *stats.Comparison) error {
			return report.Text(w, r)
		},
		"report, markdown": func(w io.Writer, r *results.Result, _ *results.Capacity, _ *stats.Comparison) error {
			return report.Markdown(w, r)
		},
		"report, junit": func(w io.Writer, r *results.Result, _ *results.Capacity, _ *stats.Comparison) error {
			return report.JUnit(w, r)
		},
		"report, json": func(w io.Writer, r *results.Result, _ *results.Capacity, _ *stats.Comparison) error {
			return r.Write(w)
		},
		"report, html": func(w io.Writer, r *results.Result, _ *results.Capacity, _ *stats.Comparison) error {
			return report.HTML(w, []report.Page{{Name: "a", Result: r}})
		},
		"capacity, text": func(w io.Writer, _ *results.Result, c *results.Capacity, _ *stats.Comparison) error {
			return report.Capacity(w, c)
		},
		"capacity, markdown": func(w io.Writer, _ *results.Result, c *results.Capacity, _ *stats.Comparison) error {
			return report.CapacityMarkdown(w, c)
		},
		"capacity, json": func(w io.Writer, _ *results.Result, c *results.Capacity, _ *stats.Comparison) error {
			return c.Write(w)
		},
		"compare, text": func(w io.Writer, _ *results.Result, _ *results.Capacity, c *stats.Comparison) error {
			return report.CompareText(w, c)
		},
		"compare, markdown": func(w io.Writer, _ *results.Result, _ *results.Capacity, c *stats.Comparison) error {
			return report.CompareMarkdown(w, c)
		},
		"compare, json": func(w io.Writer, _ *results.Result, _ *results.Capacity, c *stats.Comparison) error {
			return json.NewEncoder(w).Encode(c)
		},
	}
	for what, text := range hostileTexts {
		if strings.Contains(text, knownToken[:6]) {
			continue // who reads an archive knows no secrets
		}
		r, c, compared := hostileArchive(t, text)
		for name, write := range outputs {
			var out bytes.Buffer
			if err := write(&out, r, c, compared); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if out.Len() < 100 {
				t.Errorf("%s in %s: it shows nothing: %s", what, name, &out)
			}
			if wrong := wrongWith(withoutOwnScripts(out.String()), nil); wrong != "" {
				t.Errorf("%s in %s: %s", what, name, wrong)
			}
		}
	}
}

// hostileArchive is a result with a text wherever there can be one, a capacity, and
// a comparison, all read from files.
func hostileArchive(t *testing.T, text string) (*results.Result, *results.Capacity, *stats.Comparison) {
	t.Helper()
	sides := make([]*stats.Side, 2)
	var r *results.Result
	for i := range sides {
		var of results.Result
		fill(reflect.ValueOf(&of).Elem(), text, 9)
		of.Schema, of.Lanes[0].Name, of.Shards, of.Part, of.Run = results.Schema, "push", nil, nil, fmt.Sprintf("%s%d", text, i)
		of.Lanes[0].Latency.Intervals = nil // their keys and doubts are not free text
		of.Checkpoint = false
		name, err := json.Marshal(text)
		must(t, err)
		of.Profile = json.RawMessage(`{"name":` + string(name) + `,"target":{"url":` + string(name) + `},` + string(name) + `:1}`)
		dir := t.TempDir()
		must(t, results.WriteFile(dir+"/"+results.File, of.Write))
		if r, err = results.Load(dir); err != nil {
			t.Fatal(err)
		}
		if sides[i], err = stats.LoadSide([]string{dir}); err != nil {
			t.Fatal(err)
		}
	}
	compared, err := stats.Compare(sides[0], sides[1], stats.CompareOptions{})
	must(t, err)
	var c results.Capacity
	fill(reflect.ValueOf(&c).Elem(), text, 9)
	c.Schema, c.Steps[0].Number = results.CapacitySchema, 1
	var file bytes.Buffer
	must(t, c.Write(&file))
	read, err := results.ReadCapacity(&file)
	must(t, err)
	return r, read, compared
}

// withoutOwnScripts leaves out what a page brings along.
func withoutOwnScripts(page string) string {
	for _, tag := range []string{"script", "style"} {
		var out strings.Builder
		for found := true; found; {
			var own string
			own, page, found = strings.Cut(page, "<"+tag)
			out.WriteString(own)
			if own, page, _ = strings.Cut(page, "</"+tag+">"); strings.Contains(own, knownToken) || strings.ContainsRune(own, '\x1b') {
				out.WriteString(own)
			}
		}
		page = out.String()
	}
	return page
}
