package mcpclient

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/eventmeter/eventmeter/internal/wire"
)

// TestErrorsNameTheWayOut: a server that is up is not asked whether it is up.
func TestErrorsNameTheWayOut(t *testing.T) {
	ports := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EADDRNOTAVAIL)}
	for _, c := range []struct {
		err  error
		want string
	}{
		{ports, "local ports"},
		{fmt.Errorf("dial: %w", x509.UnknownAuthorityError{}), "target.caFile"},
		{syscall.ECONNREFUSED, "is the server up"},
	} {
		text := (&CallError{Method: "events/list", Kind: KindOf(c.err), Cause: c.err}).Error()
		up := strings.Contains(text, "is the server up")
		if !strings.Contains(text, c.want) || up && c.want != "is the server up" {
			t.Errorf("%v: %q lacks %q", c.err, text, c.want)
		}
	}
}

func TestRedirectNamesTheLocation(t *testing.T) {
	resp := &http.Response{StatusCode: http.StatusPermanentRedirect, Header: http.Header{"Location": {"https://u:secret@other.example/mcp/"}}}
	e := judge(resp, &wire.Message{}, false)
	if e == nil || !strings.Contains(e.Error(), "https://other.example/mcp/") {
		t.Errorf("a redirect: %v", e)
	}
}
