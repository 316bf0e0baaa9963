package mcpclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/budget"
	"github.com/eventmeter/eventmeter/internal/wire"
)

// TestCodesHaveTwoNumbers holds the numbers of the earlier text and of the
// draft to the same meaning.
func TestCodesHaveTwoNumbers(t *testing.T) {
	for _, c := range []struct {
		older, newer int64
		is           error
		final, later bool
	}{
		{-32011, -32023, ErrNotOffered, true, false},
		{-32012, -32024, ErrAuth, true, false},
		{-32013, -32025, ErrThrottled, false, true},
		{-32014, -32026, ErrNotOffered, true, false},
		{-32015, -32027, ErrInvalid, true, false},
		{-32016, -32028, ErrServer, false, false},
		{-32010, -32022, ErrServer, false, false},
	} {
		for _, code := range []int64{c.older, c.newer} {
			e := &CallError{Status: 200, HasCode: true, code: code}
			if !errors.Is(e, c.is) || e.Final() != c.final || e.Throttled() != c.later || Passing(code) != c.later {
				t.Errorf("%d: %v, final %v, throttled %v, passing %v", code, e, e.Final(), e.Throttled(), Passing(code))
			}
			if missing := (&CallError{Status: 404, HasCode: true, code: code}); c.is != ErrServer && missing.Forgotten() {
				t.Errorf("%d with 404 counts as a forgotten session", code)
			}
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	for v, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, " 0 ": 0, "-1": 0, "soon": 0,
		"Fri, 20 Nov 2026 10:01:00 GMT": time.Minute, "Fri, 20 Nov 2026 09:00:00 GMT": 0,
	} {
		if got := retryAfter(http.Header{"Retry-After": {v}}, now); got != want {
			t.Errorf("%q: %v", v, got)
		}
	}
}

func TestFailureWords(t *testing.T) {
	for _, c := range []struct {
		e    *CallError
		word string
		is   error
	}{
		{&CallError{Status: 429, HasCode: true, code: -32013}, "http 429", ErrThrottled},
		{&CallError{Status: 200, HasCode: true, code: -32013}, "rpc -32013", ErrThrottled},
		{&CallError{Status: 400, HasCode: true, code: -32602}, "rpc -32602", ErrInvalid},
		{&CallError{Status: 200, HasCode: true, code: -32012}, "rpc -32012", ErrAuth},
		{&CallError{Status: 401}, "http 401", ErrAuth},
		{&CallError{Status: 404}, "http 404", ErrNotOffered},
		{&CallError{Status: 404, HasCode: true, code: -32601}, "rpc -32601", ErrNotOffered},
		{&CallError{Status: 500}, "http 500", ErrServer},
		{&CallError{Kind: KindOf(context.DeadlineExceeded)}, "timeout", ErrUnreachable},
		{&CallError{Kind: KindOf(fmt.Errorf("x: %w", io.ErrUnexpectedEOF))}, "eof", ErrUnreachable},
		{&CallError{Kind: KindOf(tls.RecordHeaderError{})}, "tls", ErrUnreachable},
		{&CallError{Kind: KindOf(errors.New("odd"))}, "transport", ErrUnreachable},
		{nil, "", nil},
	} {
		if got := c.e.Failure(); got != c.word {
			t.Errorf("%+v: %q", c.e, got)
		}
		if c.e != nil && !errors.Is(c.e, c.is) {
			t.Errorf("%v is not %v", c.e, c.is)
		}
	}
}

func TestOversize(t *testing.T) {
	for _, err := range []error{budget.ErrExceeded, wire.ErrTooLarge, wire.ErrFieldTooLarge, ErrCursor, ErrID, ErrList,
		ErrStamps, errHandshake} {
		e := &CallError{Method: "m", Kind: KindOf(err), Cause: err}
		if oversize(fmt.Errorf("read: %w", err)) != err.Error() || e.Failure() != KindOversized || !errors.Is(e, ErrProtocol) ||
			!strings.Contains(e.Error(), err.Error()) {
			t.Errorf("%v: %v", err, e)
		}
	}
	if oversize(errors.New("the stream has ended")) != "" || oversize(nil) != "" {
		t.Error("other errors are oversized")
	}
}

func TestListSize(t *testing.T) {
	var many, large ListSize
	page := []byte(`{"result":{"events":[` + strings.Repeat("{},", MaxListEntries/2) + `{}]}}`)
	if err := many.Add(page, "events"); err != nil {
		t.Error(err)
	}
	if err := many.Add(page, "events"); !errors.Is(err, ErrList) {
		t.Error(err)
	}
	half := bytes.Repeat([]byte(" "), MaxListBytes/2)
	if err := errors.Join(large.Add(half, "events"), large.Add(half, "events")); err != nil {
		t.Error(err)
	}
	if err := large.Add([]byte(" "), "events"); !errors.Is(err, ErrList) {
		t.Error(err)
	}
}
