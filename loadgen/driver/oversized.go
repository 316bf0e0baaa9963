package driver

import (
	"errors"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/budget"
	"github.com/eventmeter/eventmeter/internal/wire"
)

// kindOversized is the failure word for an answer or a stream that was given up
// because it would have taken too much memory.
const kindOversized = "oversized"

const (
	// maxCursor bounds cursors and ids that are kept and sent back.
	maxCursor = 8 << 10
	// maxListBytes and maxListEntries bound a list, all pages of it. An entry
	// takes more memory than text.
	maxListBytes, maxListEntries = 16 << 20, 50_000
	// maxPageStamps bounds the probe ids that are kept of one page.
	maxPageStamps = 4096
)

var (
	errCursor = errors.New("a cursor is larger than 8 KiB")
	errID     = errors.New("a subscription id is larger than 8 KiB")
	errList   = errors.New("a list has more than 16 MiB or 50,000 entries")
	errStamps = errors.New("a page has more than 4,096 probe ids")
)

// oversize tells what was too large, in a few stable words; "" for errors of
// other kinds.
func oversize(err error) string {
	for _, e := range []error{
		budget.ErrExceeded, wire.ErrTooLarge, wire.ErrFieldTooLarge, errCursor, errID, errList, errStamps, errHandshake,
	} {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	return ""
}

// tooLarge counts an answer or a stream of the lane that was given up because it
// was too large; it does nothing with other errors.
func (c *caller) tooLarge(at eventmeter.Instant, err error) {
	c.tooLargeFor(eventmeter.Sub{Lane: c.lane}, at, err)
}

// tooLargeFor is tooLarge of one subscription.
func (c *caller) tooLargeFor(sub eventmeter.Sub, at eventmeter.Instant, err error) {
	if err == nil || c.rec == nil {
		return
	}
	if what := oversize(err); what != "" {
		c.rec.Noticed(eventmeter.Notice{Sub: sub, Kind: eventmeter.Oversized, At: at, Detail: what})
	}
}

// listSize adds up the pages of a list.
type listSize struct{ bytes, entries int }

// page takes a page into account, before it is decoded.
func (l *listSize) page(text []byte, member string) error {
	l.bytes += len(text)
	l.entries += wire.ListLength(text, member)
	if l.bytes > maxListBytes || l.entries > maxListEntries {
		return &callError{kind: kindOversized, cause: errList}
	}
	return nil
}
