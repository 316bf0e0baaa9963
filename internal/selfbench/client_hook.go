package selfbench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/sinks"
)

// plainHook is the baseline of webhook deliveries: the same listener with a
// handler that reads the body and answers 200.
type plainHook struct {
	base
	listener *sinks.Listener
}

func newPlainHook(s spec, _ *eventmeter.Clock) (client, error) {
	c := &plainHook{base: base{spec: s}}
	var err error
	c.listener, err = sinks.Listen(sinks.ListenerOptions{Handler: c})
	return c, err
}

// ServeHTTP implements [http.Handler].
func (c *plainHook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // the answer to an interrupted delivery reaches nobody
	c.seen.Add(1)
	w.WriteHeader(http.StatusOK)
}

// open subscribes as the generator does.
func (c *plainHook) open(ctx context.Context) error {
	secret := wire.FormatSecret(make([]byte, 32))
	for i := range c.spec.Streams {
		body := `{"jsonrpc":"2.0","id":` + strconv.Itoa(i+1) + `,"method":"events/subscribe","params":{"name":"` + eventName +
			`","arguments":{},"delivery":{"mode":"webhook","url":"` + c.listener.URL("/h/"+strconv.Itoa(i)) + `","secret":"` + secret + `"},"cursor":null}}`
		resp, err := post(ctx, http.DefaultClient, c.spec.URL, []byte(body))
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("subscription %d was answered %s", i, resp.Status)
		}
	}
	return nil
}

func (c *plainHook) close(ctx context.Context) error { return c.listener.Close(ctx) }
