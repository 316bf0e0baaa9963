package systemstest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// ServeHTTP plays the server.
func (p *play) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage
		Method string
	}
	json.Unmarshal(body, &m)
	if p.handshake(w, r, m.ID, m.Method) {
		return
	}
	// The callback in the request must be known before the next step, which may be a
	// delivery to it.
	text := string(body)
	s, ok := p.turnWith(func() { p.learn(text) }, "request")
	if !ok {
		select { // past the end of the conversation: nothing more is said
		case <-r.Context().Done():
		case <-time.After(10 * time.Millisecond):
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
		return
	}
	if p.drain != nil {
		p.drain()
	}
	text = urlPattern.ReplaceAllString(text, `"$1":"<url>"`)
	text = secretPattern.ReplaceAllString(text, `"secret":"<secret>"`)
	text = ownPattern.ReplaceAllString(text, `"id":"<own>"`)
	got := r.Method + " " + r.URL.Path + "\n" + fields(r.Header) + "\n" + text
	if got != s.text {
		p.t.Errorf("request:\n%s\nwant:\n%s", got, s.text)
	}
	s, ok = p.turnWith(func() { p.learnMade(p.steps[p.at-1].text) }, "answer")
	if !ok {
		return
	}
	p.answer(w, r, s.text)
}

// learn keeps the callback in a request. The caller holds p.mu.
func (p *play) learn(request string) {
	if u := urlPattern.FindStringSubmatch(request); u != nil {
		p.url = u[2]
	}
	if u := secretPattern.FindStringSubmatch(request); u != nil && u[1] != p.secret {
		p.former, p.secret = p.secret, u[1]
	}
}

// learnMade keeps the secret that the server makes in SEP-1803. The caller holds p.mu.
func (p *play) learnMade(answer string) {
	if made := madePattern.FindStringSubmatch(answer); made != nil {
		p.secret = made[1]
	}
}

func (p *play) answer(w http.ResponseWriter, r *http.Request, text string) {
	head, body, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(head, "\n")
	status, hold := strings.CutSuffix(lines[0], " hold")
	code, err := strconv.Atoi(status)
	if err != nil {
		p.t.Errorf("answer: %v", err)
	}
	for _, l := range lines[1:] {
		k, v, _ := strings.Cut(l, ": ")
		w.Header().Set(k, v)
	}
	if strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
		body += "\n\n"
	}
	w.WriteHeader(code)
	io.WriteString(w, body)
	if hold {
		w.(http.Flusher).Flush()
		for {
			select {
			case more := <-p.more:
				io.WriteString(w, more+"\n\n")
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}
}

// handshake answers the requests of the official client, whose bytes are not checked.
func (p *play) handshake(w http.ResponseWriter, r *http.Request, id json.RawMessage, method string) bool {
	say := func(result string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
	}
	switch {
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	case method == "server/discover" && (p.cfg.Era == mcpclient.Modern || p.cfg.Era == ""):
		say(
			`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"events":{"listChanged":true}},` +
				`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"script","version":"1"}}}`,
		)
	case method == "initialize" && p.cfg.Era == mcpclient.Legacy:
		w.Header().Set("Mcp-Session-Id", "s1")
		say(`{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"script","version":"1"}}`)
	case method == "notifications/initialized":
		w.WriteHeader(http.StatusAccepted)
	case method == "server/discover" || method == "initialize":
		http.Error(w, "what?", http.StatusBadRequest)
	case p.cfg.Era == mcpclient.Bare && method == "events/list" && !p.cfg.Discover:
		say(`{"events":[]}`)
	default:
		return false
	}
	return true
}

// fields returns the headers that are checked, in order.
func fields(h http.Header) string {
	var b strings.Builder
	for _, k := range []string{"Accept", "Authorization", "Content-Type", "Last-Event-Id", "Mcp-Method", "Mcp-Name",
		"Mcp-Protocol-Version", "Mcp-Session-Id"} {
		if v := h.Get(k); v != "" {
			fmt.Fprintf(&b, "%s: %s\n", k, v)
		}
	}
	return b.String()
}
