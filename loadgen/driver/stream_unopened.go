package driver

import (
	"errors"
	"io"

	"github.com/eventmeter/eventmeter/internal/budget"
	"github.com/eventmeter/eventmeter/internal/streamclient"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// unopened is an answer that is no stream, as far as it has come.
type unopened struct {
	head   streamclient.Head
	size   int64
	body   []byte // of an event stream, the response in it
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

// take keeps a piece of the refusal. What comes as an event stream is over with
// its answer, whether the server closes it or not.
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

// drop gives up what is held.
func (f *unopened) drop() {
	f.body = nil
	f.hold.Drop()
	if f.parser != nil {
		f.parser.Reset()
	}
}

// isWhole tells whether an answer ended in order.
func isWhole(err error) bool { return errors.Is(err, io.EOF) }

// brokenReader is the end of a body that broke.
type brokenReader struct{ err error }

func (b brokenReader) Read([]byte) (int, error) { return 0, b.err }
