package updates

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// piece takes the next bytes of the stream.
func (s *stream) piece(b []byte, at eventmeter.Instant) error {
	s.at = at
	if err := s.parser.Feed(b, s.event); err != nil {
		s.d.TooLargeFor(s.c.Sub, at, err)
		return err
	}
	if s.ended {
		return driver.ErrEnded
	}
	return nil
}

// event takes one message off the stream.
func (s *stream) event(e wire.Event) {
	m := &s.message
	switch {
	case s.ended: // nothing more is taken from it
	case len(e.Data) == 0: // a comment, or an id alone
		s.overhead(e.Size, "comment")
	case !wire.ScanMessage(e.Data, m):
		s.d.Notice(s.c.Sub, eventmeter.Malformed, s.at, "a message is not a JSON object")
	case m.Method == nil && (m.HasResult || m.HasError):
		s.answered(e, m)
	case s.modern && string(m.Method) == methodAcknowledged:
		s.acknowledged(e)
	default:
		if s.modern && !s.strange && !bytes.Equal(mcpclient.BareID(m.SubscriptionID), strconv.AppendUint(nil, s.request, 10)) {
			s.strange = true // once on each stream
			s.d.Notice(s.c.Sub, eventmeter.Malformed, s.at, "a notification does not name its stream's request")
		}
		s.c.message(m, e.Size, s.at)
	}
}

// message takes one notification.
func (c *client) message(m *wire.Message, size int, at eventmeter.Instant) {
	d := c.d
	switch method := string(m.Method); {
	case method == methodUpdated && c.uri != "" && within(m.URI, c.uri):
		c.notified(at, size, method)
	case method == methodUpdated && c.uri != "":
		d.overhead(at, size, method)
		d.tally.Count("unrouted", 1)
	case c.uri == "" && method == d.list.changed:
		c.notified(at, size, method)
	default: // other lists, progress, logs, requests of the server
		d.overhead(at, size, method)
		d.tally.Count("otherNotifications", 1)
	}
}

// within tells whether a URI is that of a resource, or of one that lies below it: an
// update may name a sub-resource.
func within(uri []byte, resource string) bool {
	if !bytes.HasPrefix(uri, []byte(resource)) {
		return false
	}
	return len(uri) == len(resource) || strings.HasSuffix(resource, "/") || uri[len(resource)] == '/'
}

// answered handles the response that ends a request to listen.
func (s *stream) answered(e wire.Event, m *wire.Message) {
	s.overhead(e.Size, "response")
	s.ended = true
	if !m.HasError {
		return
	}
	err := mcpclient.RPCError(s.method, &m.Error)
	err.Status = s.status
	if s.stands {
		s.over = err
		return
	}
	s.report(err)
	s.over = s.d.refused(err)
}

// acknowledged looks whether the server will notify of what was asked for.
func (s *stream) acknowledged(e wire.Event) {
	if !s.stands {
		s.down += int64(e.Size)
		s.report(nil)
	}
	if err := s.c.granted(e.Data); err != nil {
		s.ended, s.over = true, err
		return
	}
	s.confirmed(s.at)
}

// granted looks whether an acknowledgement covers what the client asked for.
func (c *client) granted(acknowledgement []byte) error {
	var m struct {
		Params struct {
			Notifications map[string]json.RawMessage `json:"notifications"`
		} `json:"params"`
	}
	_ = json.Unmarshal(acknowledgement, &m) // what cannot be read agrees to nothing
	what := c.d.list.read
	granted := string(m.Params.Notifications[c.d.list.want]) == "true"
	if c.uri != "" {
		var uris []string
		_ = json.Unmarshal(m.Params.Notifications["resourceSubscriptions"], &uris) // what cannot be read names none
		what, granted = c.uri, slices.Contains(uris, c.uri)
	}
	if !granted {
		return fmt.Errorf("updates: %w: the acknowledgement leaves %s out", mcpclient.ErrNotOffered, errtext.Line(what))
	}
	return nil
}

// overhead counts bytes of a stream that carried no update. Before it is confirmed
// they belong to the request that opened it.
func (s *stream) overhead(size int, method string) {
	if !s.stands {
		s.down += int64(size)
		return
	}
	s.d.overhead(s.at, size, method)
}

func (d *lane) overhead(at eventmeter.Instant, size int, method string) {
	d.Recorder.Called(eventmeter.Call{Lane: d.Opts.Lane, Cause: eventmeter.Heartbeat, At: at, Down: int64(size), Method: method})
}
