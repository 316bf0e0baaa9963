//go:build linux

package hostile

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/sync/errgroup"
)

const mib = 1 << 20

// row is one hostile server and the expected outcome.
type row struct {
	name    string
	mode    string // default push
	streams int    // default 20
	http    string // of the lane
	ready   string // phases.ready, default 20s, or 5s where the target need not be ready
	limits  string // of the run
	command string // a server on standard input and output
	secure  bool   // over TLS
	stall   string // see server
	answers map[string]answerer
	h2      map[string]h2Answerer

	codes     []int  // the exit code is one of these
	output    string // part of the output
	oversized string // the reasons that the result may count
	notCalled string // a method that must not be called
	rss       int64  // MiB; default 200
	cpu       time.Duration
	took      time.Duration
}

const (
	// small is the least budget of a run: a flood fills it with a quarter of the bytes of the default.
	small = "{memory: 64MiB}"

	tooLarge  = "message is larger than the bound"
	fieldSize = "an id or event name is larger than 8 KiB"
	cursor    = "a cursor is larger than 8 KiB"
	noRoom    = "the run's memory budget (limits.memory) is used up"
)

// stream confirms a stream and then calls after.
func stream(after func(x *exchange)) map[string]answerer {
	return map[string]answerer{"events/stream": func(x *exchange) {
		if x.stream() {
			after(x)
		}
	}}
}

// body answers one method with a status and a body of size bytes.
func body(method string, status int, kind, what string, size int) map[string]answerer {
	return map[string]answerer{method: func(x *exchange) {
		if x.open(status, kind) && x.flood(what, size) {
			x.hold()
		}
	}}
}

// text answers one method with a JSON text.
func text(method string, status int, of func(x *exchange) string) map[string]answerer {
	return map[string]answerer{method: func(x *exchange) {
		x.json(status, of(x))
		x.keepOpen = true
	}}
}

// raw answers one method with bytes, written repeatedly.
func raw(method, head, again string, size int) map[string]answerer {
	return map[string]answerer{method: func(x *exchange) {
		if x.say(head) && again != "" && x.flood(again, size) {
			x.hold()
		}
		x.keepOpen = strings.Contains(head, "Content-Length: 0\r\n") // the answer is whole
	}}
}

// handshake answers both requests of the handshake in the same way.
func handshake(as func(method, head, again string, size int) map[string]answerer, head, again string, size int) map[string]answerer {
	all := as("server/discover", head, again, size)
	all["initialize"] = all["server/discover"]
	return all
}

// afterFirstPoll answers a poll correctly, except for 60 of those with a cursor. The end
// of a run waits for pollers that fail.
func afterFirstPoll(of func(x *exchange)) map[string]answerer {
	var bad atomic.Int64
	return map[string]answerer{"events/poll": func(x *exchange) {
		if string(x.params.Cursor) == "null" || bad.Add(1) > 60 {
			x.json(200, goodAnswer(x))
			x.keepOpen = true // as the answer said: a client may send its next request here at once
			return
		}
		of(x)
	}}
}

var (
	ended   = []int{0, 4, 5} // 4: the test machine may be busy
	refused = []int{3}
)

func rows() []row {
	return []row{
		// Streams.
		{name: "1,000 endless lines", streams: 1000, ready: "60s", answers: stream(func(x *exchange) {
			if x.say("data: ") && x.flood("x", 2*mib) {
				x.hold()
			}
		}), codes: ended, oversized: noRoom + tooLarge, rss: 512, cpu: 30 * time.Second},
		{name: "endless line", answers: stream(func(x *exchange) {
			if x.say("data: ") && x.flood("x", 24*mib) {
				x.hold()
			}
		}), codes: ended, limits: small, oversized: noRoom + tooLarge, rss: 300},
		{name: "one line beyond the bound", streams: 1, answers: stream(func(x *exchange) {
			if x.say("data: ") && x.flood("x", 20*mib) {
				x.hold()
			}
		}), codes: ended, oversized: tooLarge, rss: 250},
		{name: "endless comments", answers: stream(func(x *exchange) { x.flood(": comment\n", 4*mib) }), codes: ended},
		{name: "endless comment", answers: stream(func(x *exchange) {
			if x.say(":") && x.flood("x", 24*mib) {
				x.hold()
			}
		}), codes: ended, limits: small, oversized: noRoom + tooLarge, rss: 300},
		{name: "huge ids", streams: 100, answers: stream(func(x *exchange) {
			if x.say("id: "+pad(mib)+"\n"+x.active()) && x.flood(":\n", 2) {
				x.hold()
			}
		}), codes: ended, oversized: fieldSize, rss: 480},
		{name: "huge event names", streams: 100, answers: stream(func(x *exchange) {
			if x.say("event: "+pad(mib)+"\n"+x.active()) && x.flood(":\n", 2) {
				x.hold()
			}
		}), codes: ended, oversized: fieldSize, rss: 480},
		{name: "huge cursors on streams", answers: stream(func(x *exchange) {
			if x.say("data: " + x.notification("heartbeat", `"cursor":"`+pad(4*mib)+`"`) + "\n\n") {
				x.hold()
			}
		}), codes: ended, oversized: cursor, rss: 480},
		{
			name:      "many data lines",
			streams:   4,
			answers:   stream(func(x *exchange) { x.flood("data: "+pad(1000)+"\n", 24*mib) }),
			codes:     ended,
			limits:    small,
			oversized: noRoom + tooLarge,
			rss:       300,
		},
		{name: "deep JSON on streams", answers: stream(func(x *exchange) {
			if x.say("data: " + strings.Repeat("[", 1_000_000) + "\n\ndata: " + strings.Repeat(`{"a":`, 200_000) + "\n\n") {
				x.hold()
			}
		}), codes: ended, rss: 480},
		{name: "heartbeat storm", streams: 4, answers: stream(func(x *exchange) {
			x.flood("data: "+x.notification("heartbeat", `"cursor":"c"`)+"\n\n", 12*mib)
		}), codes: ended},
		{name: "storm for others", streams: 4, answers: stream(func(x *exchange) {
			x.flood(
				`data: {"jsonrpc":"2.0","method":"notifications/events/event","params":{"requestId":999999,"eventId":"e","cursor":"c"}}`+"\n\n",
				8*mib,
			)
		}), codes: ended},
		{
			name: "chunk extension without end",
			answers: raw(
				"events/stream",
				"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5;",
				"x",
				8*mib,
			),
			codes:  refused,
			output: "a line is too long",
		},
		{name: "stream cut in the head", answers: raw("events/stream", "HTTP/1.1 200 OK\r\nContent-Ty", "", 0), codes: refused},

		// Heads.
		{
			name:    "head without end on streams",
			streams: 200,
			answers: raw("events/stream", "HTTP/1.1 200 OK\r\n", "X-Field: "+pad(1000)+"\r\n", 4*mib),
			codes:   refused,
			output:  "the head is too long",
		},
		{
			name:    "head without end on polls",
			mode:    "poll",
			streams: 200,
			answers: raw("events/poll", "HTTP/1.1 200 OK\r\n", "X-Field: "+pad(1000)+"\r\n", 4*mib),
			codes:   refused,
		},
		{
			name:    "head without end in the handshake",
			answers: handshake(raw, "HTTP/1.1 200 OK\r\n", "X-Field: "+pad(1000)+"\r\n", 64*mib),
			codes:   refused,
		},
		{
			name:    "interim answers without end on streams",
			answers: raw("events/stream", "", "HTTP/1.1 103 Early Hints\r\n\r\n", 8*mib),
			codes:   refused,
			output:  "too many interim answers",
		},
		{
			name:    "interim answers without end on polls",
			mode:    "poll",
			answers: raw("events/poll", "", "HTTP/1.1 103 Early Hints\r\n\r\n", 8*mib),
			codes:   refused,
		},
		{
			name:    "interim answers without end in the handshake",
			answers: handshake(raw, "", "HTTP/1.1 103 Early Hints\r\nX: "+pad(100)+"\r\n\r\n", 8*mib),
			codes:   refused,
		},
		{
			name:      "redirects",
			answers:   raw("events/stream", "HTTP/1.1 307 Temporary Redirect\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n", "", 0),
			codes:     refused,
			output:    "http 307",
			notCalled: "/elsewhere",
		},
		{
			name:      "redirect of the handshake",
			answers:   handshake(raw, "HTTP/1.1 307 Temporary Redirect\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n", "", 0),
			codes:     ended,
			notCalled: "/elsewhere",
		},

		// Refusals.
		{
			name:    "refusal 400 of 80 MiB",
			streams: 100,
			answers: body("events/stream", 400, "application/json", "x", 80*mib),
			codes:   refused,
			output:  "http 400",
		},
		{
			name:    "refusal 500 of 80 MiB",
			streams: 100,
			answers: body("events/stream", 500, "text/plain", "x", 80*mib),
			codes:   refused,
			output:  "http 500",
		},
		{name: "refusal 200 of 80 MiB", streams: 100, answers: body("events/stream", 200, "application/json", "x", 80*mib), codes: refused},
		{
			name:    "refusal of a poll of 80 MiB",
			mode:    "poll",
			streams: 100,
			answers: body("events/poll", 500, "application/json", "x", 80*mib),
			codes:   refused,
			output:  "http 500",
		},
		{name: "answer to a poll of 80 MiB", mode: "poll", streams: 100, answers: afterFirstPoll(func(x *exchange) {
			if x.open(200, "application/json") && x.flood("x", 80*mib) {
				x.hold()
			}
		}), codes: ended, oversized: noRoom + tooLarge, rss: 480},
		{
			name:    "error text of 20 MiB",
			streams: 10,
			answers: text("events/stream", 200, func(x *exchange) string { return x.fail(-32000, pad(20*mib)) }),
			codes:   refused,
			rss:     480,
		},
		{name: "error that trickles in", answers: map[string]answerer{"events/stream": func(x *exchange) {
			if x.open(400, "text/event-stream") {
				_ = x.flood(":\n", 900<<10) && x.drip(strings.Repeat(":\n", 20_000), 4, time.Millisecond)
			}
		}}, codes: refused, ready: "2s", cpu: 3 * time.Second, took: 20 * time.Second},

		// Polls.
		{name: "huge cursors on polls", mode: "poll", answers: afterFirstPoll(func(x *exchange) {
			x.json(200, x.result(`{"events":[],"cursor":"`+pad(10*mib)+`","hasMore":false}`))
		}), codes: ended, limits: small, oversized: cursor + noRoom, rss: 250},
		{name: "deep JSON on polls", mode: "poll", answers: afterFirstPoll(func(x *exchange) {
			x.json(200, x.result(strings.Repeat("[", 1_000_000)))
		}), codes: ended, rss: 300},
		{name: "next poll in an age", mode: "poll", answers: text("events/poll", 200, func(x *exchange) string {
			return x.result(`{"events":[],"cursor":"c","hasMore":false,"nextPollMs":1e18}`)
		}), codes: ended, ready: "5s", took: 80 * time.Second}, // the end of a run waits a minute for pollers
		{
			name: "Content-Length too large",
			mode: "poll",
			answers: raw(
				"events/poll",
				"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999999999999\r\n\r\n{}",
				"",
				0,
			),
			codes: refused,
		},
		{name: "Content-Length too small", mode: "poll", answers: map[string]answerer{"events/poll": func(x *exchange) {
			x.say("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n" + goodAnswer(x))
		}}, codes: refused},
		{name: "poll cut in the body", mode: "poll", answers: map[string]answerer{"events/poll": func(x *exchange) {
			x.say("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n" + goodAnswer(x))
		}}, codes: refused},

		// Handshake and lists.
		{
			name:    "handshake without end",
			answers: handshake(raw, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", "x", 512*mib),
			codes:   refused,
			output:  "larger than 256 KiB",
		},
		{
			name:    "handshake of one line without end",
			answers: handshake(raw, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", "x", 512*mib),
			codes:   refused,
		},
		{name: "initialize without end", answers: map[string]answerer{
			"server/discover": func(x *exchange) { x.json(404, x.fail(-32601, "Method not found")) },
			"initialize": func(x *exchange) {
				if x.open(200, "application/json") && x.flood("x", 512*mib) {
					x.hold()
				}
			},
		}, codes: refused},
		{name: "handshake cut", answers: handshake(raw, "", "", 0), codes: refused},
		{name: "list cut", answers: raw("events/list", "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{", "", 0), codes: refused},
		{name: "compressed list", answers: map[string]answerer{"events/list": func(x *exchange) {
			if x.open(200, "application/json", "Content-Encoding: gzip") {
				// One gzip member per MiB: a stream may hold several.
				var member bytes.Buffer
				z := gzip.NewWriter(&member)
				_, _ = io.CopyN(z, zeroes{}, mib)
				_ = z.Close()
				for range 256 {
					if _, err := x.Write(member.Bytes()); err != nil {
						return
					}
				}
			}
		}}, codes: refused, output: "compressed (gzip)"},
		{name: "large pages", answers: text("events/list", 200, func(x *exchange) string {
			return x.result(`{"events":[` + eventType + `],"pad":"` + pad(15*mib) + `","nextCursor":"` + x.id + `"}`)
		}), codes: refused, output: "a list has more than 16 MiB", rss: 300},
		{name: "many entries", answers: text("events/list", 200, func(x *exchange) string {
			return x.result(`{"events":[` + strings.Repeat("{},", 5_000_000) + eventType + `]}`)
		}), codes: refused, output: "a list has more than", rss: 300},
		{name: "pages without end", answers: text("events/list", 200, func(x *exchange) string {
			return x.result(`{"events":[` + eventType + `],"nextCursor":"` + x.id + `"}`)
		}), codes: refused, output: "more than 1000 pages"},
		{name: "deep JSON in the list", answers: text("events/list", 200, func(x *exchange) string {
			return x.result(strings.Repeat("[", 1_000_000))
		}), codes: refused},

		// Time.
		{name: "confirmation that trickles in", answers: map[string]answerer{"events/stream": func(x *exchange) {
			if x.open(200, "text/event-stream") {
				x.drip(x.active(), 1, 200*time.Millisecond)
			}
		}}, codes: refused, took: 20 * time.Second},
		{
			name:    "throttled for a year",
			answers: raw("events/stream", "HTTP/1.1 429 Too Many\r\nRetry-After: 31536000\r\nContent-Length: 0\r\n\r\n", "", 0),
			codes:   refused,
			took:    20 * time.Second,
		},
		{
			name:    "polls throttled for a year",
			mode:    "poll",
			answers: raw("events/poll", "HTTP/1.1 429 Too Many\r\nRetry-After: 31536000\r\nContent-Length: 0\r\n\r\n", "", 0),
			codes:   refused,
			took:    20 * time.Second,
		},

		// Webhooks.
		{
			name:    "grant until 9999",
			mode:    "webhook",
			answers: text("events/subscribe", 200, func(x *exchange) string { return x.result(grant("9999-12-31T23:59:59Z")) }),
			codes:   ended,
		},
		{
			name:    "grant that is over",
			mode:    "webhook",
			answers: text("events/subscribe", 200, func(x *exchange) string { return x.result(grant("1999-12-31T23:59:59Z")) }),
			codes:   ended,
		},
		{name: "huge subscription ids", mode: "webhook", answers: text("events/subscribe", 200, func(x *exchange) string {
			return x.result(`{"id":"` + pad(10*mib) + `","refreshBefore":null}`)
		}), codes: refused, output: "events/subscribe: oversized", rss: 480},
		{
			name:    "huge webhook bodies",
			mode:    "webhook",
			streams: 4,
			answers: map[string]answerer{"events/subscribe": deliver},
			codes:   ended,
			rss:     480,
		},

		// HTTP/2.
		{
			name:    "h2c: endless lines",
			http:    "h2c",
			streams: 60,
			h2: map[string]h2Answerer{"events/stream": func(c *h2Conn, id uint32, x *exchange) {
				_ = c.head(id, "text/event-stream", true) && c.data(id, []byte(x.active()+"data: "), false) && c.pad(id, 4*mib)
			}},
			codes:     ended,
			limits:    small,
			oversized: noRoom + tooLarge,
			rss:       250,
		},
		{name: "h2c: CONTINUATION flood", http: "h2c", h2: map[string]h2Answerer{"events/stream": func(c *h2Conn, id uint32, x *exchange) {
			if c.head(id, "text/event-stream", false) {
				c.repeat(10_000, func() error { return c.framer.WriteContinuation(id, false, make([]byte, 16<<10)) })
			}
		}}, codes: refused},
		{
			name:    "h2c: SETTINGS flood",
			http:    "h2c",
			streams: 4,
			h2: map[string]h2Answerer{"events/stream": func(c *h2Conn, id uint32, x *exchange) {
				_ = c.head(id, "text/event-stream", true) && c.data(id, []byte(x.active()), false)
				c.repeat(100_000, func() error {
					return c.framer.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1000})
				})
			}},
			codes: append(slices.Clone(ended), 3),
		},
		{
			name:    "h2c: PING flood",
			http:    "h2c",
			streams: 4,
			h2: map[string]h2Answerer{"events/stream": func(c *h2Conn, id uint32, x *exchange) {
				_ = c.head(id, "text/event-stream", true) && c.data(id, []byte(x.active()), false)
				var n uint64
				c.repeat(100_000, func() error {
					var b [8]byte
					n++
					binary.BigEndian.PutUint64(b[:], n)
					return c.framer.WritePing(false, b)
				})
			}},
			codes: append(slices.Clone(ended), 3),
		},
		{
			name:    "h2c: one stream a connection",
			http:    "h2c",
			streams: 100,
			h2: map[string]h2Answerer{"events/stream": func(c *h2Conn, id uint32, x *exchange) {
				c.write(func() error {
					return c.framer.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
				})
				_ = c.head(id, "text/event-stream", true) && c.data(id, []byte(x.active()+"data: "), false) && c.pad(id, mib)
			}},
			codes: append(slices.Clone(ended), 3),
			rss:   480,
		},

		// Standard input and output.
		{name: "stdio: endless line in the handshake", command: "handshake", streams: 2, codes: refused, took: 45 * time.Second},
		{name: "stdio: endless line", command: "stream", streams: 2, codes: refused},
		{name: "stdio: huge ids", command: "ids", streams: 2, codes: append(slices.Clone(ended), 3)},
	}
}

// deliver grants a subscription and then attacks its callback with endless and
// incomplete bodies.
func deliver(x *exchange) {
	x.json(200, goodAnswer(x))
	x.keepOpen = true
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, Timeout: 4 * time.Second}
	defer client.CloseIdleConnections()
	done := make(chan struct{})
	const posts = 40
	for i := range posts {
		go func() {
			defer func() { done <- struct{}{} }()
			var text io.Reader = io.LimitReader(zeroes{}, 64*mib)
			if i%4 != 0 {
				text = io.MultiReader(io.LimitReader(zeroes{}, 250<<10), stalledBody{x.done, time.After(3 * time.Second)})
			}
			req, err := http.NewRequest(http.MethodPost, x.params.Delivery.URL, text)
			if err != nil {
				return
			}
			if resp, err := client.Do(req); err == nil {
				_ = resp.Body.Close()
			}
		}()
	}
	for range posts {
		<-done
	}
}

// stalledBody is the rest of a body that never arrives.
type stalledBody struct {
	done  <-chan struct{}
	after <-chan time.Time
}

func (w stalledBody) Read([]byte) (int, error) {
	select {
	case <-w.done:
	case <-w.after:
	}
	return 0, io.ErrUnexpectedEOF
}

type zeroes struct{}

func (zeroes) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// profile is the profile of the run.
func (r *row) profile(s *server) string {
	mode, streams, version := r.mode, s.streams, r.http
	if mode == "" {
		mode = "push"
	}
	if version == "" {
		version = "1.1"
	}
	ready := r.ready
	switch {
	case ready != "":
	case slices.Contains(r.codes, 3):
		ready = "5s"
	default:
		ready = "20s"
	}
	target, version, limits := s.target(), fmt.Sprintf(", http: %q", version), ""
	if r.limits != "" {
		limits = "limits: " + r.limits + "\n"
	}
	if r.command != "" {
		version = ""
		target = fmt.Sprintf("{command: [%q], env: {%s: %s}}", os.Args[0], asProgram, r.command)
	}
	return fmt.Sprintf(`name: hostile
target: %s
lanes:
  - {name: a, mode: %s, subscriptions: %d, event: e%s}
upstream: {kind: http, http: {url: %q}, payload: {text: "{{.Probe}}"}}
schedule: {kind: constant, rate: 10/s}
phases: {ready: %s, warmup: 0, measure: 2s, drain: 500ms}
%s`, target, mode, streams, version, s.publishURL(), ready, limits)
}

func TestHostile(t *testing.T) {
	var waiting, working errgroup.Group
	defer func() { _, _ = waiting.Wait(), working.Wait() }() // the functions return none
	working.SetLimit(4)                                      // most rows wait more than they work
	in := func(g *errgroup.Group, r row) {
		g.Go(func() error {
			t.Run(r.name, func(t *testing.T) { meets(t, &r) })
			return nil
		})
	}
	var alone, others []row
	for _, r := range append(rows(), moreRows()...) {
		switch {
		case r.took > 40*time.Second: // it waits all that time
			in(&waiting, r)
		case r.rss >= 480: // it holds much: short of CPU, the garbage collector lets the heap grow
			alone = append(alone, r)
		default:
			others = append(others, r)
		}
	}
	for _, r := range alone {
		t.Run(r.name, func(t *testing.T) { meets(t, &r) })
	}
	for _, r := range others {
		in(&working, r)
	}
}

// meets runs the program against the server of a row.
func meets(t *testing.T, r *row) {
	s := start(t, r)
	var env []string
	if r.rss > 200 {
		// What the program holds is judged: short of CPU, the garbage collector
		// would let garbage grow beyond it.
		env = append(env, fmt.Sprintf("GOMEMLIMIT=%dMiB", r.rss*3/4))
	}
	o := run(t, r.profile(s), env...)
	t.Logf(
		"exit %d, %d MiB, %v CPU, %v, oversized %v",
		o.code,
		o.rss/mib,
		o.cpu.Round(time.Millisecond),
		o.took.Round(time.Millisecond),
		o.result.oversized(),
	)
	if !slices.Contains(r.codes, o.code) {
		t.Errorf("exit %d, want one of %v", o.code, r.codes)
	}
	if !strings.Contains(o.text, r.output) {
		t.Errorf("the output does not say %q", r.output)
	}
	var counted, others int64
	for what, n := range o.result.oversized() {
		if strings.Contains(r.oversized, what) {
			counted += n
		} else {
			others += n
		}
	}
	if (r.oversized != "") != (counted > 0) || others > 0 && r.mode != "webhook" {
		t.Errorf("oversized: %v, want %q and nothing else", o.result.oversized(), r.oversized)
	}
	if r.notCalled != "" && s.requests(r.notCalled) > 0 {
		t.Errorf("%s was asked for", r.notCalled)
	}
	if bound := limit(r.rss, 200); o.rss > bound*mib {
		t.Errorf("%d MiB resident, at most %d", o.rss/mib, bound)
	}
	if bound := limit(r.cpu, 15*time.Second); o.cpu > bound {
		t.Errorf("%v of CPU, at most %v", o.cpu, bound)
	}
	if bound := limit(r.took, 40*time.Second); o.took > bound {
		t.Errorf("it took %v, at most %v", o.took, bound)
	}
	if t.Failed() {
		t.Logf("output:\n%s", o.text[:min(len(o.text), 4000)])
	}
}

// limit returns a bound, or its default.
func limit[T int | int64 | time.Duration](given, usual T) T {
	if given != 0 {
		return given
	}
	return usual
}
