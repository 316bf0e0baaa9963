//go:build linux

package hostile

import (
	"crypto/tls"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// alternate answers successive requests of a method differently, so that one run
// meets several attacks.
func alternate(method string, ways ...answerer) map[string]answerer {
	var n atomic.Int64
	return map[string]answerer{method: func(x *exchange) { ways[int(n.Add(1)-1)%len(ways)](x) }}
}

// streamAttacks are ways to fill memory on a confirmed stream, with size bytes
// each.
func streamAttacks(size int) []answerer {
	after := func(say, again string) answerer {
		return func(x *exchange) {
			if x.stream() && x.say(say) && x.flood(again, size) {
				x.hold()
			}
		}
	}
	return []answerer{
		after("data: ", "x"), after(":", "x"), after("", "data: "+pad(1000)+"\n"),
		after("data: "+strings.Repeat("[", 500), `{"a":[`), after("", "id: "+pad(64<<10)+"\n"), after("", "event: "+pad(64<<10)+"\n"),
	}
}

// refusals refuse a request with a body of size bytes.
func refusals(size int) []answerer {
	var out []answerer
	for _, r := range []struct {
		status int
		kind   string
	}{{400, "application/json"}, {500, "text/plain"}, {200, "application/json"}, {403, "text/event-stream"}} {
		out = append(out, func(x *exchange) {
			if x.open(r.status, r.kind) && x.flood("x", size) {
				x.hold()
			}
		})
	}
	return out
}

// trickles are error answers that arrive mostly at once and then byte by byte.
// A client that rescans them from the beginning each time needs minutes.
func trickles() []answerer {
	drip := func(status int, kind, first, again string, size int) answerer {
		return func(x *exchange) {
			if x.open(status, kind) && x.say(first) && x.flood(again, size) {
				x.drip(strings.Repeat(again, 20_000), 1, time.Millisecond)
			}
		}
	}
	return []answerer{
		drip(400, "application/json", `{"error":{"code":-32000,"message":"`, "x", 900<<10),
		drip(500, "text/plain", "", "x", 900<<10),
		drip(200, "application/json", `{"jsonrpc":"2.0","error":{"message":"`, "x", 900<<10),
		drip(200, "text/event-stream", `data: {"jsonrpc":"2.0","error":{"message":"`, "x", 900<<10),
		drip(400, "text/event-stream", "", ":\n", 900<<10),
		drip(200, "text/event-stream", `data: {"a":`, "[", 900<<10),
	}
}

// halfRecord writes the beginning of a TLS record without its end.
func halfRecord(x *exchange) {
	if x.stream() {
		_, _ = x.Conn.(*tls.Conn).NetConn().Write(append([]byte{23, 3, 3, 0x40, 0}, pad(16_000)...))
		x.hold()
	}
}

// stalledHandshake accepts a connection and never ends its handshake: it sends
// nothing, or a record of 16 KiB byte by byte.
func stalledHandshake(n int, c net.Conn, done <-chan struct{}) {
	x := &exchange{Conn: c, done: done}
	if n%2 == 0 {
		x.hold()
		return
	}
	_, _ = c.Write([]byte{22, 3, 3, 0x40, 0, 2, 0, 0x3f, 0xfc})
	x.drip(pad(16<<10), 1, 20*time.Millisecond)
}

// manyCallbacks grants a subscription, and keeps connections to its callback
// open, silent or with half a request.
func manyCallbacks(connections int) map[string]answerer {
	var once atomic.Bool
	return map[string]answerer{"events/subscribe": func(x *exchange) {
		x.json(200, goodAnswer(x))
		x.keepOpen = true
		if !once.CompareAndSwap(false, true) {
			return
		}
		address := strings.Split(strings.TrimPrefix(x.params.Delivery.URL, "https://"), "/")[0]
		var handshakes sync.WaitGroup
		defer handshakes.Wait() // after the connections are closed
		for i := range connections {
			c, err := net.Dial("tcp", address)
			if err != nil {
				break
			}
			defer c.Close()
			if i%8 == 0 {
				// Beside the others: on a busy machine the handshakes take longer than the run.
				t := tls.Client(c, &tls.Config{InsecureSkipVerify: true})
				handshakes.Go(func() { _, _ = t.Write([]byte("POST /h/ HTTP/1.1\r\nHost: x\r\nX: ")) })
			}
		}
		select {
		case <-x.done:
		case <-time.After(4 * time.Second):
		}
	}}
}

// moreRows are the rows over TLS, with many streams, and with answers that
// trickle in.
func moreRows() []row {
	tooMuch := noRoom + tooLarge + fieldSize
	return []row{
		// Over TLS.
		{name: "TLS: handshake without end on streams", secure: true, streams: 200, stall: "events/list", codes: refused},
		{name: "TLS: handshake without end", secure: true, stall: "none", codes: refused},
		{
			name:    "TLS: half a record on 400 streams",
			secure:  true,
			streams: 400,
			ready:   "15s",
			answers: map[string]answerer{"events/stream": halfRecord},
			codes:   ended,
		},
		{
			name:    "TLS: head without end",
			secure:  true,
			streams: 100,
			answers: raw("events/stream", "HTTP/1.1 200 OK\r\n", "X-Field: "+pad(1000)+"\r\n", 4*mib),
			codes:   refused,
		},
		{
			name:    "TLS: body without end in the handshake",
			secure:  true,
			answers: handshake(raw, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", "x", 512*mib),
			codes:   refused,
			output:  "larger than 256 KiB",
		},
		{
			name:      "TLS: bodies without end",
			secure:    true,
			streams:   60,
			answers:   alternate("events/stream", streamAttacks(4*mib)...),
			codes:     ended,
			limits:    small,
			oversized: tooMuch,
			rss:       250,
		},

		// A thousand streams.
		{
			name:      "1,000 streams, six attacks",
			streams:   1000,
			ready:     "25s",
			answers:   alternate("events/stream", streamAttacks(mib)...),
			codes:     ended,
			limits:    small,
			oversized: tooMuch,
			rss:       512,
			cpu:       30 * time.Second,
		},
		{
			name:    "1,000 refusals",
			streams: 1000,
			answers: alternate("events/stream", refusals(4*mib)...),
			codes:   refused,
			rss:     512,
			cpu:     30 * time.Second,
		},

		// Webhooks.
		{
			name:    "1,300 connections to a callback",
			mode:    "webhook",
			streams: 1,
			limits:  small,
			answers: manyCallbacks(1300),
			codes:   ended,
			output:  "too many connections at once: more than 1024",
		},

		// Answers that trickle in: CPU must grow linearly with their bytes.
		{
			name:    "six errors that trickle in",
			streams: 60,
			answers: alternate("events/stream", trickles()...),
			codes:   refused,
			ready:   "2s",
			cpu:     3 * time.Second,
			took:    20 * time.Second,
		},
		{
			name:    "errors of polls that trickle in",
			mode:    "poll",
			streams: 20,
			answers: alternate("events/poll", trickles()[:3]...),
			codes:   refused,
			ready:   "2s",
			cpu:     3 * time.Second,
			took:    20 * time.Second,
		},
		{
			name:    "h2c: error that trickles in",
			http:    "h2c",
			answers: nil,
			h2: map[string]h2Answerer{"events/stream": func(c *h2Conn, id uint32, x *exchange) {
				if c.head(id, "application/json", true) && c.data(id, []byte(`{"jsonrpc":"2.0","error":{"message":"`), false) &&
					c.pad(id, 900<<10) {
					for c.data(id, []byte("x"), false) {
						if !x.pause(time.Millisecond) {
							return
						}
					}
				}
			}},
			codes: refused,
			ready: "2s",
			cpu:   3 * time.Second,
			took:  20 * time.Second,
		},
	}
}
