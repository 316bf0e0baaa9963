package driver

import (
	"errors"
	"io"

	"github.com/eventmeter/eventmeter/internal/budget"
	"github.com/eventmeter/eventmeter/internal/streamclient"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// unopened is an answer that is no stream, as far as it has arrived.
type unopened struct {
	head   streamclient.Head
	size   int64
	body   []byte // the body; of an event stream, only the response in it
	hold   budget.Hold
	parser *wire.EventParser // nil unless it is an event stream
}

func newUnopened(h streamclient.Head, b *budget.Budget) *unopened {
	f := &unopened{head: h, hold: budget.Of(b)}
	if mcpclient.IsEventStream(h.Header) {
		f.parser = &wire.EventParser{Limit: mcpclient.MaxRefusal, Budget: b}
	}
	return f
}

// take keeps a piece of the answer. An event stream is over after the response, even if
// the server does not close it: take then returns ErrEnded.
func (f *unopened) take(b []byte) error {
	f.size += int64(len(b))
	if f.parser == nil {
		return f.keep(b)
	}
	var full error
	if err := f.parser.Feed(b, func(e wire.Event) {
		var m wire.Message
		if f.body == nil && wire.ScanMessage(e.Data, &m) && m.Method == nil && (m.HasResult || m.HasError) {
			full = f.keep(e.Data)
		}
	}); err != nil {
		return err
	}
	if full == nil && f.body != nil {
		full = ErrEnded
	}
	return full
}

func (f *unopened) keep(b []byte) error {
	if len(f.body)+len(b) > mcpclient.MaxRefusal {
		return wire.ErrTooLarge
	}
	f.body = append(f.body, b...)
	return f.hold.Resize(cap(f.body))
}

// drop releases the body and its budget.
func (f *unopened) drop() {
	f.body = nil
	f.hold.Drop()
	if f.parser != nil {
		f.parser.Reset()
	}
}

// isWhole reports whether an answer was read to its end.
func isWhole(err error) bool { return errors.Is(err, io.EOF) }

// brokenReader ends a body with an error.
type brokenReader struct{ err error }

func (b brokenReader) Read([]byte) (int, error) { return 0, b.err }
