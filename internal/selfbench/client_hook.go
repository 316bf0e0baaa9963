package selfbench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/sinks"
)

// plainHook is the baseline of webhook deliveries: the same listener, with a
// handler that reads a delivery and answers 200. It looks at nothing.
type plainHook struct {
	bare
	listener *sinks.Listener
}

func newPlainHook(s spec, _ *eventmeter.Clock) (client, error) {
	c := &plainHook{bare: bare{spec: s}}
	var err error
	c.listener, err = sinks.Listen(sinks.ListenerOptions{Handler: c})
	return c, err
}

// ServeHTTP reads and answers.
func (c *plainHook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // a delivery that broke off is answered to nobody
	c.seen.Add(1)
	w.WriteHeader(http.StatusOK)
}

// open subscribes as the generator does.
func (c *plainHook) open(ctx context.Context) error {
	secret := wire.FormatSecret(make([]byte, 32))
	for i := range c.spec.Streams {
		body := `{"jsonrpc":"2.0","id":` + strconv.Itoa(i+1) + `,"method":"events/subscribe","params":{"name":"` + eventName +
			`","arguments":{},"delivery":{"mode":"webhook","url":"` + c.listener.URL("/h/"+strconv.Itoa(i)) + `","secret":"` + secret + `"},"cursor":null}}`
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.spec.URL, bytes.NewReader([]byte(body)))
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, resp.Body) // so that the connection is used again
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("subscription %d was answered %s", i, resp.Status)
		}
	}
	return nil
}

func (c *plainHook) close(ctx context.Context) error { return c.listener.Close(ctx) }
