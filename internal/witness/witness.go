// Package witness holds small MCP Events clients for tests. They run beside the
// generator, subscribe at the same server, and count what arrives.
//
// They deliberately share no code with the generator: plain net/http and
// encoding/json, one goroutine per subscription, no figure but a count by probe
// id. Each keeps the book of one subscription: where a report claims a loss, the witness
// of the subscription must have missed the event as well.
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
	"strconv"
	"strings"
	"sync"
	"time"
)

// Options configure a witness.
type Options struct {
	URL       string         // the MCP endpoint
	Token     string         // bearer token; empty = none
	Event     string         // name of the event type
	Arguments map[string]any // nil = {}
	Cursor    string         // where a webhook begins; empty = from now on
	// Reopen makes Push open its stream again for as long as its context lasts, with the last
	// cursor, after the wait that the server asked for: retry of the stream, or Retry-After of a
	// refusal.
	Reopen bool
}

// Witness counts the received copies of each probe id. It is safe for
// concurrent use.
type Witness struct {
	mu        sync.Mutex
	seen      map[string]int
	log       []string // probe ids and Gap, in the order of arrival
	ready     chan struct{}
	readyOnce sync.Once
	cancel    context.CancelFunc
	done      chan struct{}
	err       error
}

var probe = regexp.MustCompile(`[a-z]{4}-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{8}-[0-9a-f]{2}`)

// count records every probe id in a message.
func (w *Witness) count(message []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range probe.FindAll(message, -1) {
		w.seen[string(id)]++
		w.log = append(w.log, string(id))
	}
}

func (w *Witness) countGap() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, Gap)
}

// olderCursorExpired is the code by which the older revision announces a gap.
const olderCursorExpired = -32014

// Gap stands for an announced gap in a Log.
const Gap = "gap"

// Log returns the probe ids of all copies, and Gap for each announced gap, in
// the order of arrival.
func (w *Witness) Log() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.log...)
}

// Ready is closed when the server has confirmed the subscription: the server
// owes all later events.
func (w *Witness) Ready() <-chan struct{} { return w.ready }

// Distinct is the number of different probe ids received so far.
func (w *Witness) Distinct() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.seen)
}

// Close ends the subscription, waits, and returns the error that ended it
// earlier, if any.
func (w *Witness) Close() error {
	w.cancel()
	<-w.done
	return w.err
}

// run starts the goroutine of a witness.
func run(ctx context.Context, body func(context.Context, *Witness) error) *Witness {
	ctx, cancel := context.WithCancel(ctx)
	w := &Witness{seen: map[string]int{}, ready: make(chan struct{}), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		if err := body(ctx, w); ctx.Err() == nil {
			w.err = err
		}
	}()
	return w
}

// Poll subscribes by events/poll. It polls again at once after hasMore, else
// after nextPollMs.
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
			w.readyOnce.Do(func() { close(w.ready) })
			for _, e := range m.Result.Events {
				w.count(e)
			}
			if m.Result.Truncated {
				w.countGap()
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

// Push subscribes by events/stream and reads until the stream ends.
func Push(ctx context.Context, o Options) *Witness {
	return run(ctx, func(ctx context.Context, w *Witness) error {
		for s := (&stream{w: w}); ; {
			if err := s.read(ctx, o); !o.Reopen {
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(s.wait):
			}
		}
	})
}

// stream is what a witness knows of its streams.
type stream struct {
	w      *Witness
	cursor any           // of the last message that had one
	wait   time.Duration // before the next stream
}

func (s *stream) read(ctx context.Context, o Options) error {
	s.wait = 50 * time.Millisecond
	resp, err := o.post(ctx, "events/stream", map[string]any{"cursor": s.cursor})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if t := resp.Header.Get("Content-Type"); !strings.HasPrefix(t, "text/event-stream") {
		if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
			s.wait = time.Duration(seconds) * time.Second
		}
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		return fmt.Errorf("events/stream: status %d, %s: %s", resp.StatusCode, t, body)
	}
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadBytes('\n')
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			s.frame(data)
		} else if retry, ok := bytes.CutPrefix(line, []byte("retry:")); ok {
			if ms, err := strconv.Atoi(string(bytes.TrimSpace(retry))); err == nil {
				s.wait = time.Duration(ms) * time.Millisecond
			}
		}
		if err != nil {
			return err
		}
	}
}

// frame handles one message of a stream.
func (s *stream) frame(data []byte) {
	var m struct {
		Method string `json:"method"`
		Params struct {
			Truncated bool `json:"truncated"`
			Cursor    any  `json:"cursor"`
		} `json:"params"`
	}
	if json.Unmarshal(data, &m) != nil {
		return
	}
	if m.Params.Cursor != nil {
		s.cursor = m.Params.Cursor
	}
	switch m.Method {
	case "notifications/events/active":
		s.w.readyOnce.Do(func() { close(s.w.ready) })
		if m.Params.Truncated {
			s.w.countGap()
		}
	case "notifications/events/event":
		s.w.count(data)
	}
}

// Webhook returns a witness and the handler of its callback, which answers
// challenges and counts the events it accepts. The caller subscribes, serves
// the handler and closes the witness. The handler verifies no signature.
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
			Error     struct {
				Code int `json:"code"`
			} `json:"error"`
		}
		_ = json.Unmarshal(body, &m)
		if m.Error.Code == olderCursorExpired {
			m.Type = "gap"
		}
		switch m.Type {
		case "":
			w.count(body)
		case "verification":
			_ = json.NewEncoder(rw).Encode(map[string]string{"challenge": m.Challenge})
		case "gap":
			w.countGap()
		}
	})
}

// Subscribe sends events/subscribe for a callback.
func Subscribe(ctx context.Context, o Options, callback, secret string) error {
	var cursor any
	if o.Cursor != "" {
		cursor = o.Cursor
	}
	body, err := o.call(ctx, "events/subscribe", map[string]any{
		"cursor": cursor, "delivery": map[string]string{"mode": "webhook", "url": callback, "secret": secret},
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

// call sends a request and returns its answer, also from an SSE answer.
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
	return http.DefaultClient.Do(req)
}
