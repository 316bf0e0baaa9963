package refserver

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

// breaking opens a server that breaks a row, "" = none. Callbacks prove nothing.
func breaking(t *testing.T, row string) *Server {
	t.Helper()
	o := Options{Proof: ProofAllowList, CallbackHosts: []string{"callback.example"}, Presence: true}
	if row != "" {
		spec, err := faults.Parse("break(row=" + row + ")")
		must(t, err)
		o.Faults = spec
	}
	return startServer(t, o)
}

// codeOf is the code of the error that a call is answered with; 0 = it has a result.
func codeOf(t *testing.T, s *Server, token, method, params string) int {
	t.Helper()
	status, text := rpc(t, s, token, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`)
	var answer struct {
		Result json.RawMessage
		Error  *struct{ Code int }
	}
	if err := json.Unmarshal(
		[]byte(text),
		&answer,
	); err != nil || status != http.StatusOK ||
		(answer.Error == nil) != (answer.Result != nil) {
		t.Fatalf("%s: %d %s", method, status, text)
	}
	if answer.Error == nil {
		return 0
	}
	return answer.Error.Code
}

// TestBrokenAnswers: what only a deliberate call shows of a row is answered otherwise by
// a server that breaks it.
func TestBrokenAnswers(t *testing.T) {
	subscribe := func(delivery, more string) string {
		return `{"name":"tick","delivery":` + delivery + more + `}`
	}
	const fine = `{"mode":"webhook","url":"https://callback.example/","secret":"` + testSecret + `"}`
	clean := breaking(t, "")
	for _, c := range []struct {
		row, token, method, params string
		clean, broken              int
	}{
		{"subscribe-webhook-only", "p", "events/subscribe",
			subscribe(`{"mode":"push","url":"https://callback.example/","secret":"`+testSecret+`"}`, ""), -32026, 0},
		{"subscribe-secret-required", "p", "events/subscribe", subscribe(`{"mode":"webhook","url":"https://callback.example/"}`, ""), -32602, 0},
		{"subscribe-secret-format", "p", "events/subscribe",
			subscribe(`{"mode":"webhook","url":"https://callback.example/","secret":"whsec_AAAA"}`, ""), -32602, 0},
		{"subscribe-secret-rejected", "p", "events/subscribe",
			subscribe(`{"mode":"webhook","url":"https://callback.example/","secret":"whsec_AAAA"}`, ""), -32602, -32603},
		{"subscribe-url-https-required", "p", "events/subscribe",
			subscribe(`{"mode":"webhook","url":"http://callback.example/","secret":"`+testSecret+`"}`, ""), -32602, 0},
		{"subscribe-url-non-https-rejected", "p", "events/subscribe",
			subscribe(`{"mode":"webhook","url":"http://callback.example/","secret":"`+testSecret+`"}`, ""), -32602, -32600},
		{"ssrf-validate-callback-url", "p", "events/subscribe",
			subscribe(`{"mode":"webhook","url":"ftp://callback.example/","secret":"`+testSecret+`"}`, ""), -32602, 0},
		{"subscribe-auth-required", "", "events/subscribe", subscribe(fine, ""), -32024, 0},
		{"ttl-no-rejection-path", "p", "events/subscribe", subscribe(fine, `,"ttlMs":1`), 0, -32602},
		{"ttl-no-rejection-path", "p", "events/subscribe", subscribe(fine, `,"ttlMs":null`), 0, -32602},
		{"unsubscribe-unknown-not-found", "p", "events/unsubscribe", subscribe(`{"url":"https://callback.example/nobody"}`, ""), -32023, 0},
		{"removal-poll-not-found", "p", "events/poll", `{"name":"nonsense"}`, -32023, -32602},
		{"error-invalid-params", "p", "events/poll", `{"name":"tick","arguments":{"a":1}}`, -32602, -32603},
		{"poll-invalid-arguments", "p", "events/poll", `{"name":"tick","arguments":{"a":1}}`, -32602, -32603},
		{"poll-mode-unsupported", "p", "events/poll", `{"name":"presence.changed"}`, -32026, -32602},
		{"fallback-method-not-found", "p", "events/list", `{}`, 0, -32603},
		{"truncated-poll-never-an-error", "p", "events/poll", `{"name":"tick","cursor":"c0-5"}`, 0, -32602},
		{"authz-subscribe-time", "p", "events/poll", `{"name":"private.note","arguments":{"principal":"another"}}`, -32024, 0},
	} {
		t.Run(c.row, func(t *testing.T) {
			if got := codeOf(t, clean, c.token, c.method, c.params); got != c.clean {
				t.Errorf("the server answers %d, want %d", got, c.clean)
			}
			if got := codeOf(t, breaking(t, c.row), c.token, c.method, c.params); got != c.broken {
				t.Errorf("the server that breaks the row answers %d, want %d", got, c.broken)
			}
		})
	}
}

// TestBrokenKeys: two calls get one id, or two, unless the row about it is broken.
func TestBrokenKeys(t *testing.T) {
	params := func(arguments, more string) string {
		return `{"name":"chat.message","arguments":` + arguments +
			`,"delivery":{"mode":"webhook","url":"https://callback.example/","secret":"` + testSecret + `"}` + more + `}`
	}
	clean := breaking(t, "")
	for _, c := range []struct {
		row    string
		tokens [2]string
		a, b   string
		same   bool // without the breach
	}{
		{"subscribe-key-composition", [2]string{"p", "p"}, params(`{"channel":"c"}`, ""), params(`{ "channel" : "c" }`, ""), true},
		{"subscribe-key-immutable", [2]string{"p", "p"}, params(`{"channel":"c"}`, ""), params(`{"channel":"d"}`, ""), false},
		{"subscribe-cross-tenant-isolation", [2]string{"p", "q"}, params(`{}`, ""), params(`{}`, ""), false},
		{"subscribe-id-not-an-input", [2]string{"p", "p"}, params(`{"channel":"c"}`, `,"id":"mine"`),
			params(`{"channel":"d"}`, `,"id":"mine"`), false},
	} {
		t.Run(c.row, func(t *testing.T) {
			for s, want := range map[*Server]bool{clean: c.same, breaking(t, c.row): !c.same} {
				a, b := result(t, s, c.tokens[0], "events/subscribe", c.a)["id"], result(t, s, c.tokens[1], "events/subscribe", c.b)["id"]
				if (a == b) != want {
					t.Errorf("ids %v and %v; the same: want %v", a, b, want)
				}
			}
		})
	}
}
