// Package witness holds tiny MCP Events clients for tests. They run beside a
// run, subscribe at the same server, and count what arrives.
//
// They share no code with the generator, on purpose: plain net/http and
// encoding/json, one goroutine a subscription, no figure but a count by probe
// id. Where a report claims a loss, a witness must have missed it as well.
package witness

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Options say what a witness subscribes to.
type Options struct {
	URL       string         // the MCP endpoint
	Token     string         // bearer token; empty = none
	Event     string         // name of the event type
	Arguments map[string]any // nil = {}
	// Client sends the requests; nil = http.DefaultClient.
	Client *http.Client
}

// Witness counts the copies of each probe id that it received. It is safe for
// concurrent use.
type Witness struct {
	mu      sync.Mutex
	seen    map[string]int
	log     []string // probe ids, and Gap, in the order of arrival
	ready   chan struct{}
	readied sync.Once
	cancel  context.CancelFunc
	done    chan struct{}
	err     error
}

var probe = regexp.MustCompile(`[a-z]{4}-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{8}-[0-9a-f]{2}`)

func newWitness(cancel context.CancelFunc) *Witness {
	return &Witness{seen: map[string]int{}, ready: make(chan struct{}), cancel: cancel, done: make(chan struct{})}
}

// take counts every probe id in a message.
func (w *Witness) take(message []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range probe.FindAll(message, -1) {
		w.seen[string(id)]++
		w.log = append(w.log, string(id))
	}
}

func (w *Witness) announce() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, Gap)
}

// Gap stands for an announcement in a Log.
const Gap = "gap"

// Log returns the probe ids of all copies, and Gap for each announcement, in
// the order in which they came.
func (w *Witness) Log() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.log...)
}

// Ready is closed when the server confirmed the subscription: events from then
// on are owed.
func (w *Witness) Ready() <-chan struct{} { return w.ready }

// Distinct is the number of different probe ids received so far.
func (w *Witness) Distinct() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.seen)
}

// Close ends the subscription, waits, and returns what ended it before.
func (w *Witness) Close() error {
	w.cancel()
	<-w.done
	return w.err
}

// run owns the goroutine of a witness.
func run(ctx context.Context, body func(context.Context, *Witness) error) *Witness {
	ctx, cancel := context.WithCancel(ctx)
	w := newWitness(cancel)
	go func() {
		defer close(w.done)
		if err := body(ctx, w); ctx.Err() == nil {
			w.err = err
		}
	}()
	return w
}

// Poll subscribes by events/poll: at once after hasMore, else after nextPollMs.
func Poll(ctx context.Context, o Options) *Witness {
	return run(ctx, func(ctx context.Context, w *Witness) error {
		var cursor any
		for {
			body, err := o.call(ctx, "events/poll", map[string]any{"cursor": cursor})
			if err != nil {
				return err
			}
			var m struct {
				Result struct {
					Events     []json.RawMessage `json:"events"`
					Cursor     any               `json:"cursor"`
					Truncated  bool              `json:"truncated"`
					HasMore    bool              `json:"hasMore"`
					NextPollMs int               `json:"nextPollMs"`
				} `json:"result"`
				Error json.RawMessage `json:"error"`
			}
			if err := json.Unmarshal(body, &m); err != nil {
				return fmt.Errorf("events/poll: %w: %.200s", err, body)
			}
			if m.Error != nil {
				return fmt.Errorf("events/poll: %s", m.Error)
			}
			w.readied.Do(func() { close(w.ready) })
			for _, e := range m.Result.Events {
				w.take(e)
			}
			if m.Result.Truncated {
				w.announce()
			}
			cursor = m.Result.Cursor
			if m.Result.HasMore {
				continue
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(time.Duration(m.Result.NextPollMs) * time.Millisecond):
			}
		}
	})
}

// Push subscribes by events/stream and reads until the stream ends. It does not
// reconnect.
func Push(ctx context.Context, o Options) *Witness {
	return run(ctx, func(ctx context.Context, w *Witness) error {
		resp, err := o.post(ctx, "events/stream", map[string]any{"cursor": nil})
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if t := resp.Header.Get("Content-Type"); !strings.HasPrefix(t, "text/event-stream") {
			body, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
			return fmt.Errorf("events/stream: status %d, %s: %s", resp.StatusCode, t, body)
		}
		lines := bufio.NewReader(resp.Body)
		for {
			line, err := lines.ReadBytes('\n')
			if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
				w.frame(data)
			}
			if err != nil {
				return err
			}
		}
	})
}

// frame looks at one message of a stream.
func (w *Witness) frame(data []byte) {
	var m struct {
		Method string `json:"method"`
		Params struct {
			Truncated bool `json:"truncated"`
		} `json:"params"`
	}
	if json.Unmarshal(data, &m) != nil {
		return
	}
	switch m.Method {
	case "notifications/events/active":
		w.readied.Do(func() { close(w.ready) })
		if m.Params.Truncated {
			w.announce()
		}
	case "notifications/events/event":
		w.take(data)
	}
}

// Webhook returns a witness and the handler of its callback: the handler
// answers challenges and counts what it accepts. The caller subscribes, serves
// the handler and closes the witness; it verifies no signature.
func Webhook() (*Witness, http.Handler) {
	w := run(context.Background(), func(ctx context.Context, _ *Witness) error {
		<-ctx.Done()
		return nil
	})
	return w, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil {
			return
		}
		var m struct {
			Type      string `json:"type"`
			Challenge string `json:"challenge"`
		}
		_ = json.Unmarshal(body, &m)
		switch m.Type {
		case "":
			w.take(body)
		case "verification":
			_ = json.NewEncoder(rw).Encode(map[string]string{"challenge": m.Challenge})
		case "gap":
			w.announce()
		}
	})
}

// Subscribe sends events/subscribe for a callback.
func Subscribe(ctx context.Context, o Options, callback, secret string) error {
	body, err := o.call(ctx, "events/subscribe", map[string]any{
		"cursor": nil, "delivery": map[string]string{"mode": "webhook", "url": callback, "secret": secret},
	})
	if err != nil {
		return err
	}
	var m struct {
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(body, &m); err != nil || m.Error != nil {
		return fmt.Errorf("events/subscribe: %s", body)
	}
	return nil
}

// call sends a request and returns its answer, taken out of an SSE answer where
// it comes in one.
func (o Options) call(ctx context.Context, method string, params map[string]any) ([]byte, error) {
	resp, err := o.post(ctx, method, params)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		for line := range bytes.Lines(body) {
			if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && bytes.Contains(data, []byte(`"id"`)) {
				body = data
			}
		}
	}
	return body, nil
}

func (o Options) post(ctx context.Context, method string, params map[string]any) (*http.Response, error) {
	arguments := o.Arguments
	if arguments == nil {
		arguments = map[string]any{}
	}
	params["name"], params["arguments"] = o.Event, arguments
	params["_meta"] = map[string]any{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientInfo":         map[string]string{"name": "witness", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": map[string]any{},
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("MCP-Protocol-Version", "2026-07-28")
	req.Header.Set("Mcp-Method", method)
	if o.Token != "" {
		req.Header.Set("Authorization", "Bearer "+o.Token)
	}
	client := o.Client
	if client == nil {
		client = http.DefaultClient
	}
	return client.Do(req)
}
