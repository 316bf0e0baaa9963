//go:build unix

package baseline_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/tools/bench/baseline"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start serves one baseline over a version of HTTP and returns a client for it.
func start(t *testing.T, o baseline.Options, two bool) (*baseline.Server, *http.Client, string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := baseline.New(o)
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() {
		serve := f.ServeHTTP1
		if two {
			serve = f.ServeHTTP2
		}
		if err := serve(ctx, ln); err != nil {
			t.Error(err)
		}
	})
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP1(!two)
	tr.Protocols.SetUnencryptedHTTP2(two)
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		cancel()
		work.Wait()
	})
	return f, &http.Client{Transport: tr}, "http://" + ln.Addr().String() + "/mcp"
}

func both(t *testing.T, f func(t *testing.T, two bool)) {
	for _, two := range []bool{false, true} {
		t.Run("HTTP/"+strconv.Itoa(map[bool]int{false: 1, true: 2}[two]), func(t *testing.T) { f(t, two) })
	}
}

const stream = `{"jsonrpc":"2.0","id":1,"method":"events/stream","params":{"name":"tick"}}`

// next reads to the next message of a method.
func next(t *testing.T, r io.Reader, method string) wire.Event {
	t.Helper()
	var p wire.EventParser
	var got *wire.Event
	buf := make([]byte, 1) // so that nothing after it is read
	for got == nil {
		n, err := r.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		err = p.Feed(buf[:n], func(e wire.Event) {
			var m wire.Message
			if wire.ScanMessage(e.Data, &m) && string(m.Method) == method {
				c := e
				c.Data = append([]byte(nil), e.Data...)
				got = &c
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return *got
}

func TestStreams(t *testing.T) {
	both(t, func(t *testing.T, two bool) {
		f, client, url := start(t, baseline.Options{}, two)
		var bodies []io.ReadCloser
		for range 20 {
			resp, err := client.Post(url, "application/json", strings.NewReader(stream))
			if err != nil {
				t.Fatal(err)
			}
			bodies = append(bodies, resp.Body)
		}
		for _, b := range bodies {
			next(t, b, "notifications/events/active")
		}
		want := eventmeter.Stamp{Run: 7, Seq: 1}
		fire := func() {
			t.Helper()
			if _, err := f.Fire([]byte(`{"note":"` + want.String() + `"}`)); err != nil {
				t.Fatal(err)
			}
		}
		fire()
		for _, b := range bodies {
			e := next(t, b, "notifications/events/event")
			stamp, ok := eventmeter.FindStamp(e.Data)
			if !ok || stamp != want {
				t.Fatalf("probe id %v, want %v in %s", stamp, want, e.Data)
			}
			if n := len(e.Data) + len("data: \n\n"); n != 371 {
				t.Errorf("a frame of %d bytes", n)
			}
			_, rest, _ := strings.Cut(string(e.Data), `"sent":"`)
			ns, err := strconv.ParseInt(rest[:19], 10, 64)
			if age := time.Since(time.Unix(0, ns)); err != nil || age < 0 || age > time.Minute {
				t.Errorf("sent %v ago (%v)", age, err)
			}
		}
		for f.Stats().Frames < 20 { // counted after the write
			runtime.Gosched()
		}
		if s := f.Stats(); s.Streams != 20 || s.Opened != 20 || s.Frames != 20 || s.Skipped != 0 {
			t.Errorf("%+v", s)
		}
		for _, b := range bodies {
			b.Close()
		}
		for f.Stats().Streams != 0 { // over HTTP/1.1, a write finds a closed connection
			fire()
			runtime.Gosched()
		}
	})
}

func TestFire(t *testing.T) {
	both(t, func(t *testing.T, two bool) {
		_, client, url := start(t, baseline.Options{}, two)
		resp, err := client.Post(url, "application/json", strings.NewReader(stream))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		next(t, resp.Body, "notifications/events/active")
		for body, want := range map[string]int{`{"name":"tick","data":{"note":"hi"}}`: 202, `{"name":"tick","data":[1]}`: 400, `{`: 400} {
			r, err := client.Post(url, "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, r.Body)
			r.Body.Close()
			if r.StatusCode != want {
				t.Errorf("%s: %d", body, r.StatusCode)
			}
		}
		e := next(t, resp.Body, "notifications/events/event")
		if !strings.Contains(string(e.Data), `"data":{"note":"hi","sent":"1`) {
			t.Errorf("%s", e.Data)
		}
	})
}

// TestGroups publishes to one group of streams, then to all: a stream outside
// the group receives the second event first.
func TestGroups(t *testing.T) {
	both(t, func(t *testing.T, two bool) {
		f, client, url := start(t, baseline.Options{}, two)
		open := map[string]io.Reader{}
		for _, arguments := range []string{`{}`, `{"group":"0"}`, `{"group":"1"}`} {
			resp, err := client.Post(
				url,
				"application/json",
				strings.NewReader(strings.Replace(stream, `"tick"`, `"tick","arguments":`+arguments, 1)),
			)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			next(t, resp.Body, "notifications/events/active")
			open[arguments] = resp.Body
		}
		for _, event := range []string{`{"data":{"note":"some","group":"1"}}`, `{"data":{"note":"all"}}`} {
			r, err := client.Post(url, "application/json", strings.NewReader(event))
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, r.Body)
			r.Body.Close()
		}
		for arguments, notes := range map[string][]string{`{}`: {"all"}, `{"group":"0"}`: {"all"}, `{"group":"1"}`: {"some", "all"}} {
			for _, note := range notes {
				if e := next(t, open[arguments], "notifications/events/event"); !strings.Contains(string(e.Data), `"note":"`+note+`"`) {
					t.Errorf("%s: %s, want %s", arguments, e.Data, note)
				}
			}
		}
		for f.Stats().Frames != 4 { // counted after the write
			runtime.Gosched()
		}
	})
}
