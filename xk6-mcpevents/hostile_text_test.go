package mcpevents

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"unicode"
)

// TestHostileText: what a target says in errors reaches a script, which prints it,
// as one line without control characters, commands for CI systems, or the token.
func TestHostileText(t *testing.T) {
	noLeaks(t)
	const token = "tok-3f9a7c51e2"
	var text atomic.Value
	var polls atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&m) // what is no message has no method
		w.Header().Set("Content-Type", "application/json")
		fail := func() {
			said, _ := json.Marshal(text.Load()) // a string
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":%s,"data":{"reason":%[2]s}}}`, m.ID, said)
		}
		switch m.Method {
		case "initialize":
			fmt.Fprintf(
				w,
				`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"events":{}},`+
					`"serverInfo":{"name":"s","version":"1"}}}`,
				m.ID,
			)
		case "notifications/initialized":
			w.WriteHeader(http.StatusAccepted)
		case "events/poll":
			if strings.HasPrefix(text.Load().(string), "later ") && polls.Add(1) == 1 {
				fmt.Fprintf(
					w,
					`{"jsonrpc":"2.0","id":%s,"result":{"events":[],"cursor":"c","truncated":false,"hasMore":false,"nextPollMs":1}}`,
					m.ID,
				)
				return
			}
			fail()
		case "tools/list":
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, text.Load().(string))
		default:
			fail()
		}
	}))
	defer s.Close()
	for _, hostile := range []string{
		"red \x1b[31malert\x1b[0m", "\x1b]0;owned\atitle", "no\n::error title=forged::x", "::error::x", "x ##[error]y",
		"x\r##vso[task.complete]z", "##teamcity[a]",
		"a\u009b31mb", "safe\u202etxt.exe", "a\u2028::error::b", "you sent " + token,
	} {
		for _, script := range []string{
			`try { await client.poll('e', {settle: 0}); } catch (e) { said.push(e.message, String(e)); }`,
			`try { await client.list('tools'); } catch (e) { said.push(e.message, String(e)); }`,
			`const sub = await client.poll('e', {settle: 0, minInterval: '1ms'});
			await new Promise((done) => {
    const heard = (e) => { said.push(e.message, e.detail, e.reason); done(); };
    for (const name of ['error', 'gap', 'closed']) sub.on(name, heard);
  });
			await sub.close();`,
		} {
			polls.Store(0)
			text.Store(hostile)
			if strings.Contains(script, "sub.on") {
				text.Store("later " + hostile)
			}
			root := New()
			vu := newStage(t, root)
			vu.must(
				fmt.Sprintf("globalThis.said = []; const client = new Client(%q, {token: %q, era: 'legacy'});\n", s.URL, token) + script,
			)
			finished(t, root)
			vu.over()
			var lines []string
			must(t, json.Unmarshal([]byte(vu.value("JSON.stringify(said.filter((x) => x))").(string)), &lines))
			if len(lines) == 0 {
				t.Errorf("%q: %s: nothing was said", hostile, script)
			}
			for _, line := range lines {
				for _, r := range line {
					if unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp) {
						t.Errorf("%q: the character %U in %q", hostile, r, line)
						break
					}
				}
				for _, bad := range []string{"##[", "##vso[", "##teamcity[", token} {
					if strings.Contains(line, bad) {
						t.Errorf("%q: %s in %q", hostile, bad, line)
					}
				}
				if strings.HasPrefix(strings.TrimLeft(line, " "), "::") {
					t.Errorf("%q: a command: %q", hostile, line)
				}
			}
		}
	}
}

// TestHostileUpstream: the warning that quotes an upstream has no command, control character or secret of the script.
func TestHostileUpstream(t *testing.T) {
	noLeaks(t)
	const token = "tok-3f9a7c51e2"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, "you sent "+r.Header.Get("Authorization")+" \u009b31m ##vso[task.complete] ::error::x")
	}))
	defer s.Close()
	root := New()
	vu := newStage(t, root)
	vu.must(fmt.Sprintf("await new Upstream({event: 'e', url: %q, headers: {Authorization: 'Bearer %s'}}).fire();", s.URL, token))
	finished(t, root)
	vu.over()
	said := vu.log.String()
	if !strings.Contains(said, "you sent") {
		t.Fatalf("nothing of the answer is logged: %s", said)
	}
	for _, bad := range []string{token, "\u009b", "##vso[", " ::error"} {
		if strings.Contains(said, bad) {
			t.Errorf("%q in %s", bad, said)
		}
	}
}

// lines sends each line that is written to it.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// TestUnaskedText: k6 prints what net/http logs, which quotes data that a target sends unasked.
func TestUnaskedText(t *testing.T) {
	logged := make(lines, 100)
	before := log.Writer()
	log.SetOutput(logged)
	defer log.SetOutput(before)
	noLeaks(t)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		const answer = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
		if _, err := conn.Write([]byte(answer + "UNASKED " + r.Header.Get("Authorization") + "\r\n")); err != nil {
			t.Error(err)
		}
		_, _ = conn.Read(make([]byte, 1)) // until the client hangs up
	}))
	defer s.Close()
	root := New()
	vu := newStage(t, root)
	vu.must(fmt.Sprintf("try { await new Client(%q, {token: 'topsecret'}).list('tools'); } catch (e) {}", s.URL))
	finished(t, root)
	vu.over()
	if line := <-logged; !strings.Contains(line, "Unsolicited response") || strings.Contains(line, "UNASKED") ||
		strings.Contains(line, "topsecret") {
		t.Errorf("logged %q", line)
	}
}
