package mcpclient

import (
	"errors"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/budget"
	"github.com/eventmeter/eventmeter/internal/wire"
)

// KindOversized is the failure word for an answer or a stream that was given up
// because it would have taken too much memory.
const KindOversized = "oversized"

const (
	// MaxCursor bounds cursors and ids that are kept and sent back.
	MaxCursor = 8 << 10
	// MaxListBytes and maxListEntries bound a list, all pages of it. An entry
	// takes more memory than text.
	MaxListBytes, MaxListEntries = 16 << 20, 50_000
	// MaxPages bounds the pages of a list: a server whose cursor never ends is
	// broken.
	MaxPages = 1000
	// MaxPageStamps bounds the probe ids that are kept of one page.
	MaxPageStamps = 4096
)

var (
	ErrCursor = errors.New("a cursor is larger than 8 KiB")
	ErrID     = errors.New("a subscription id is larger than 8 KiB")
	ErrList   = errors.New("a list has more than 16 MiB or 50,000 entries")
	ErrStamps = errors.New("a page has more than 4,096 probe ids")
)

// oversize tells what was too large, in a few stable words; "" for errors of
// other kinds.
func oversize(err error) string {
	for _, e := range []error{
		budget.ErrExceeded, wire.ErrTooLarge, wire.ErrFieldTooLarge, ErrCursor, ErrID, ErrList, ErrStamps, errHandshake,
	} {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	return ""
}

// TooLarge counts an answer or a stream of the lane that was given up because it
// was too large; it does nothing with other errors.
func (c *Caller) TooLarge(at eventmeter.Instant, err error) {
	c.TooLargeFor(eventmeter.Sub{Lane: c.Lane}, at, err)
}

// TooLargeFor is tooLarge of one subscription.
func (c *Caller) TooLargeFor(sub eventmeter.Sub, at eventmeter.Instant, err error) {
	if err == nil || c.Recorder == nil {
		return
	}
	if what := oversize(err); what != "" {
		c.Recorder.Noticed(eventmeter.Notice{Sub: sub, Kind: eventmeter.Oversized, At: at, Detail: what})
	}
}

// ListSize adds up the pages of a list.
type ListSize struct{ bytes, entries int }

// Add takes a page into account, before it is decoded.
func (l *ListSize) Add(text []byte, member string) error {
	l.bytes += len(text)
	l.entries += wire.ListLength(text, member)
	if l.bytes > MaxListBytes || l.entries > MaxListEntries {
		return &CallError{Kind: KindOversized, Cause: ErrList}
	}
	return nil
}
