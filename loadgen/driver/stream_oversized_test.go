package driver

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/budget"
	"github.com/eventmeter/eventmeter/internal/streamclient"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// An error answer that comes as an event stream in pieces of one byte is parsed
// once: each byte is looked at when it comes and never again.
func TestRefusalInPieces(t *testing.T) {
	const message = `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no"}}`
	b := budget.New(0)
	f := newUnopened(streamclient.Head{Status: 400, Header: map[string][]string{"Content-Type": {"text/event-stream"}}}, b)
	text := strings.Repeat(": wait\n", 20_000) + "data: " + message + "\n"
	// Nothing of a comment is kept: parsing all that came again would have to.
	for i := range text {
		if err := f.take([]byte(text[i : i+1])); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.body) != 0 {
		t.Errorf("%d bytes of comments are kept", len(f.body))
	}
	if err := f.take([]byte("\n")); !errors.Is(err, ErrEnded) || string(f.body) != message || f.size != int64(len(text)+1) {
		t.Errorf("%v, %q, %d bytes", err, f.body, f.size)
	}
	if f.drop(); b.Used() != 0 {
		t.Errorf("%d bytes are left", b.Used())
	}
}

// A refusal ends at its bound, and at that of the budget.
func TestRefusalBounds(t *testing.T) {
	piece := bytes.Repeat([]byte("x"), 64<<10)
	for _, kind := range []string{"application/json", "text/event-stream"} {
		for limit, want := range map[int64]error{64 << 20: wire.ErrTooLarge, 512 << 10: budget.ErrExceeded} {
			b := budget.New(limit)
			f := newUnopened(streamclient.Head{Header: map[string][]string{"Content-Type": {kind}}}, b)
			var err error
			for range 2 * mcpclient.MaxRefusal / len(piece) {
				if err = f.take(piece); err != nil {
					break
				}
			}
			if !errors.Is(err, want) {
				t.Errorf("%s, %d: %v, want %v", kind, limit, err, want)
			}
			if f.drop(); b.Used() != 0 {
				t.Errorf("%s: %d bytes are left", kind, b.Used())
			}
		}
	}
}
