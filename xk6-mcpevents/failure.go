package mcpevents

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/grafana/sobek"
)

// The values of the property code of errors that are not the target's.
const (
	codeOption      = "option"      // the script's: an argument, an option, or where it is called
	codeLimit       = "limit"       // a process has no room for more
	codeTimeout     = "timeout"     // a time that the script can set was over
	codeInterrupted = "interrupted" // the iteration ended before
	codeFailed      = "failed"      // anything else
)

// codes are those of the errors of clients.
var codes = []struct {
	err  error
	code string
}{
	{
		mcpclient.ErrUnreachable,
		"unreachable",
	},
	{mcpclient.ErrAuth, "auth"},
	{mcpclient.ErrNotOffered, "notOffered"},
	{mcpclient.ErrInvalid, "invalid"},
	{mcpclient.ErrThrottled, "throttled"},
	{mcpclient.ErrProtocol, "protocol"},
	{mcpclient.ErrServer, "server"},
}

// coded is an error with its code.
type coded struct {
	code string
	error
}

func (e *coded) Unwrap() error { return e.error }

// codeOf returns the code of an error, or other if it has none.
func codeOf(err error, other string) string {
	var own *coded
	switch {
	case errors.As(err, &own):
		return own.code
	case errors.Is(err, context.Canceled):
		return codeInterrupted
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return other
}

// thrown makes the Error of scripts. other is the code of an error without one.
func (m *instance) thrown(err error, other string) *sobek.Object {
	e := m.vu.Runtime().NewGoError(err)
	_ = e.Set("code", codeOf(err, other)) // a new object accepts every property
	return e
}

// throw throws an error of the script's in the script.
func (m *instance) throw(err error) { panic(m.thrown(err, codeOption)) }

// rejected is a promise that is rejected at once, with an error of the script's: all
// errors of an asynchronous call come by its promise.
func (m *instance) rejected(err error) *sobek.Promise {
	p, _, refuse := m.vu.Runtime().NewPromise()
	_ = refuse(m.thrown(err, codeOption)) // a new promise is not settled
	return p
}

// late says that a call was not done within a limit, which names an option, if its time
// is over.
func late(ctx context.Context, limit string, err error) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	return &coded{codeTimeout, fmt.Errorf("not done within %s: %w", limit, err)}
}

// choose returns what is known in place of a word, for the end of an error.
func choose(word string, known []string) string {
	if best := profiles.Nearest(word, known); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return "use " + strings.Join(known, " or ")
}
