package sep975_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/driver/sep975"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

// requests opens a lane of long requests.
func requests(t *testing.T, e mcpclient.EndpointOptions, o driver.Options) (driver.Driver, *systemstest.Memory) {
	t.Helper()
	e.Capabilities = []string{sep975.ResumableRequests}
	o.System, o.Mode = "sep-975", eventmeter.Push
	o.Push.Backoff.Min, o.Push.Backoff.Max = time.Millisecond, 10*time.Millisecond
	return systemstest.Lane(t, e, o)
}

// figuresAfter waits until a figure of the lane is at least n, and others are above 0,
// has the lane drain, waits for that, and returns all figures.
func figuresAfter(t *testing.T, d driver.Driver, rec *systemstest.Memory, name string, n float64, others ...string) map[string]float64 {
	t.Helper()
	rec.Wait(t, name, func(*systemstest.Memory) bool {
		f := d.(driver.Figurer).Figures().Values
		return f[name] >= n && !slices.ContainsFunc(others, func(other string) bool { return f[other] <= 0 })
	})
	systemstest.Drained(t, d)
	f := d.(driver.Figurer).Figures().Values
	if f["unbalanced"] != 0 {
		t.Errorf("the account is off by %v: %v", f["unbalanced"], f)
	}
	return f
}

// zero checks that figures are 0.
func zero(t *testing.T, f map[string]float64, names ...string) {
	t.Helper()
	for _, name := range names {
		if v, ok := f[name]; v != 0 || !ok {
			t.Errorf("%s is %v (%t)", name, v, ok)
		}
	}
}

// bad are the figures that a sound target leaves at 0.
var bad = []string{
	"messagesLost", "messagesOutOfOrder", "messagesUnexpected", "messagesRepeatedOnOneConnection", "resultsWrong",
	"requestsFailed", "requestsUnfinished", "requestsAbandoned", "requestsOverslept",
	"policiesMissing", "policiesEarly", "policiesLeaked", "wrongAccepted", "wrongUnclear", "statusFailed", "breaks",
	"doublesBothAnswered", "doublesBothRefused", "doublesUntold",
}

func TestResumeOverEveryTransport(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{ResumeOverlap: time.Hour})
	for _, proto := range []string{"1.1", "2", "h2c"} {
		for _, era := range []mcpclient.Era{mcpclient.Modern, mcpclient.Legacy} {
			t.Run(proto+"/"+string(era), func(t *testing.T) {
				t.Parallel()
				e := mcpclient.EndpointOptions{URL: w.Srv.URL(), Era: era, Tokens: []string{"a", "b"}}
				if proto == "2" {
					e.URL, e.Roots = w.Srv.TLSURL(), w.Roots()
				}
				const subs = 3
				d, rec := requests(t, e, driver.Options{HTTP: proto, Subscriptions: subs, Settings: sep975.Settings{
					Steps:       6,
					Step:        20 * time.Millisecond,
					LogEvery:    2,
					MaxWait:     time.Minute,
					Disconnect:  sep975.CutOne,
					At:          50 * time.Millisecond,
					Away:        60 * time.Millisecond,
					StatusEvery: 20 * time.Millisecond,
					Wrong:       1,
				}})
				systemstest.Attach(t, d, subs)
				// On a busy machine, a request may have ended before its connection is cut.
				f := figuresAfter(
					t,
					d,
					rec,
					"requestsCompleted",
					2*subs,
					"cuts",
					"resumes",
					"statusPolls",
					"statusBytes",
					"messagesRepeated",
					"wrongTried",
					"detachedMean",
				)
				zero(t, f, append(bad, "hangUps", "requestsExpired")...)
				n := f["requestsBegun"]
				if f["requestsCompleted"] != n || f["messagesExpected"] != n*(6+3+1) || f["messagesDelivered"] != f["messagesExpected"] {
					t.Errorf("figures %v", f)
				}
				rec.Mu.Lock()
				defer rec.Mu.Unlock()
				for _, n := range rec.Notices {
					t.Errorf("notice %v %s", n.Kind, n.Detail)
				}
			})
		}
	}
}

// TestLastEventID has clients with sessions of their own resume by the id of the last
// event, whatever the era that the endpoint found. Nothing comes twice.
func TestLastEventID(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{ResumeOverlap: time.Hour})
	for _, proto := range []string{"1.1", "2", "h2c"} {
		for _, era := range []mcpclient.Era{mcpclient.Modern, mcpclient.Legacy} {
			t.Run(proto+"/"+string(era), func(t *testing.T) {
				t.Parallel()
				e := mcpclient.EndpointOptions{URL: w.Srv.URL(), Era: era, Tokens: []string{"a", "b"}}
				if proto == "2" {
					e.URL, e.Roots = w.Srv.TLSURL(), w.Roots()
				}
				const subs = 3
				d, rec := requests(t, e, driver.Options{HTTP: proto, Subscriptions: subs, Settings: sep975.Settings{
					Via: sep975.ViaLastEventID, Steps: 6, Step: 20 * time.Millisecond, LogEvery: 2,
					Disconnect: sep975.CutOne, At: 50 * time.Millisecond, Away: 60 * time.Millisecond, Wrong: 1,
				}})
				systemstest.Attach(t, d, subs)
				f := figuresAfter(t, d, rec, "requestsCompleted", 2*subs, "cuts", "resumes", "wrongTried", "detachedMean")
				zero(t, f, append(bad, "hangUps", "requestsExpired", "messagesRepeated", "statusPolls")...)
				n := f["requestsBegun"]
				if f["requestsCompleted"] != n || f["messagesExpected"] != n*(6+3+1) || f["messagesDelivered"] != f["messagesExpected"] {
					t.Errorf("figures %v", f)
				}
				for i := range subs {
					if err := d.Detach(t.Context(), i); err != nil {
						t.Error(err)
					}
				}
				rec.Mu.Lock()
				defer rec.Mu.Unlock()
				for _, n := range rec.Notices {
					t.Errorf("notice %v %s", n.Kind, n.Detail)
				}
			})
		}
	}
}

// TestLastEventIDWithoutIDs meets a server that keeps no events.
func TestLastEventIDWithoutIDs(t *testing.T) {
	spec, err := faults.Parse("noids(every=1)")
	if err != nil {
		t.Fatal(err)
	}
	w := systemstest.NewWorld(t, refserver.Options{Faults: spec})
	d, _ := requests(t, mcpclient.EndpointOptions{URL: w.Srv.URL()}, driver.Options{Settings: sep975.Settings{
		Via: sep975.ViaLastEventID, Steps: 2, Step: time.Millisecond, Disconnect: sep975.CutOne,
	}})
	err = d.Attach(t.Context(), 0)
	if !errors.Is(err, mcpclient.ErrNotOffered) || !strings.Contains(fmt.Sprint(err), "the events of the answer have no ids") {
		t.Errorf("attach: %v", err)
	}
	if f := d.(driver.Figurer).Figures().Values; f["policiesMissing"] != 1 || f["requestsCompleted"] != 1 {
		t.Errorf("figures %v", f)
	}
}

// TestAnotherTool meets a tool that sends neither progress nor the note: it does not fit, and
// owes nothing.
func TestAnotherTool(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{})
	for _, via := range []string{sep975.ViaToken, sep975.ViaLastEventID} {
		t.Run(via, func(t *testing.T) {
			d, rec := requests(t, mcpclient.EndpointOptions{URL: bent(t, w, nil, func(b []byte) []byte {
				b = bytes.ReplaceAll(b, []byte("notifications/progress"), []byte("notifications/anything"))
				return bytes.ReplaceAll(b, []byte("eventmeter-975-"), []byte("eventmeter-X-"))
			})}, driver.Options{Settings: sep975.Settings{Via: via, Steps: 20, Step: time.Millisecond}})
			_ = d.Attach(t.Context(), 0) // the request may have ended before
			f := figuresAfter(t, d, rec, "requestsCompleted", 1)
			if f["messagesLost"] != 0 || f["messagesExcused"] != 20 || f["requestsBegun"] != 1 {
				t.Errorf("figures %v", f)
			}
			rec.Wait(t, "it does not fit", func(m *systemstest.Memory) bool {
				return strings.Contains(strings.Join(m.Log, "\n"), "neither its progress nor the note")
			})
		})
	}
}

// TestSessionIsForgotten loses a request with the session that it belongs to, and
// makes the next one in another.
func TestSessionIsForgotten(t *testing.T) {
	t.Parallel() // it mostly waits
	w := systemstest.NewWorld(t, refserver.Options{})
	var forgotten atomic.Bool
	target, err := url.Parse(strings.TrimSuffix(w.Srv.URL(), "/mcp"))
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	proxy := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && !forgotten.Swap(true) {
			http.Error(rw, "session not found", http.StatusNotFound)
			return
		}
		p := httputil.NewSingleHostReverseProxy(target)
		p.Transport, p.FlushInterval, p.ErrorLog = transport, -1, log.New(io.Discard, "", 0)
		p.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
		p.ServeHTTP(rw, r)
	}))
	proxy.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(func() {
		proxy.Close()
		transport.CloseIdleConnections()
	})
	d, rec := requests(t, mcpclient.EndpointOptions{URL: proxy.URL + "/mcp"}, driver.Options{Settings: sep975.Settings{
		Via:        sep975.ViaLastEventID,
		Steps:      6,
		Step:       20 * time.Millisecond,
		Disconnect: sep975.CutOne,
		At:         50 * time.Millisecond,
		Away:       20 * time.Millisecond,
	}})
	systemstest.Attach(t, d, 1)
	f := figuresAfter(t, d, rec, "requestsCompleted", 1)
	if f["requestsFailed"] != 1 || f["policiesEarly"] != 1 || f["messagesLost"] == 0 {
		t.Errorf("figures %v", f)
	}
	rec.Mu.Lock()
	defer rec.Mu.Unlock()
	opened := 0
	for _, c := range rec.Calls {
		if c.Method == "initialize" && c.Cause == eventmeter.Reconnect {
			opened++
		}
	}
	if opened != 1 {
		t.Errorf("%d sessions were opened again", opened)
	}
}

func TestMassDisconnect(t *testing.T) {
	t.Parallel() // it mostly waits
	w := systemstest.NewWorld(t, refserver.Options{ResumeOverlap: time.Hour})
	const subs = 40
	for _, c := range []struct {
		how         string
		share       float64
		least, most float64
	}{{sep975.CutAll, 0, subs, subs}, {sep975.CutShare, 0.5, 10, 30}} {
		t.Run(c.how, func(t *testing.T) {
			t.Parallel()
			d, rec := requests(
				t,
				mcpclient.EndpointOptions{URL: w.Srv.URL()},
				driver.Options{Subscriptions: subs, Settings: sep975.Settings{
					Steps:      80, // the cut finds none at its end, also where the processors are busy
					Step:       50 * time.Millisecond,
					Disconnect: c.how,
					Share:      c.share,
					Away:       150 * time.Millisecond,
					MaxWait:    time.Minute,
				}},
			)
			systemstest.Attach(t, d, subs)
			p := d.(driver.Phased)
			// The cut comes at once, to the requests that have just been begun.
			rec.Mu.Lock()
			at := rec.Transitions[len(rec.Transitions)-1].At
			rec.Mu.Unlock()
			p.Begin(at, at.Add(10*time.Second))
			f := figuresAfter(t, d, rec, "requestsCompleted", 1)
			zero(t, f, bad...)
			if f["cuts"] < c.least || f["cuts"] > c.most || f["detachedMax"] < 1 || f["detachedMax"] > f["cuts"] ||
				f["resumes"] != f["cuts"] {
				t.Errorf("figures %v", f)
			}
			q := d.(driver.Figurer).Figures().Timings["resumeToFirst"]
			if float64(q.Histogram.TotalCount()) != f["cuts"] {
				t.Errorf("%d first messages were timed", q.Histogram.TotalCount())
			}
			for i := range subs {
				if err := d.Detach(t.Context(), i); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestPolicyExpires(t *testing.T) {
	t.Parallel() // it mostly waits
	w := systemstest.NewWorld(t, refserver.Options{})
	d, rec := requests(t, mcpclient.EndpointOptions{URL: w.Srv.URL()}, driver.Options{Subscriptions: 4, Settings: sep975.Settings{
		Steps: 200, Step: 20 * time.Millisecond, MaxWait: 100 * time.Millisecond, Tolerance: time.Second,
		Disconnect: sep975.CutOne, At: 30 * time.Millisecond, Expire: 1,
	}})
	systemstest.Attach(t, d, 4)
	f := figuresAfter(t, d, rec, "requestsExpired", 4, "messagesExcused")
	zero(t, f, append(bad, "requestsCompleted")...)
	if s := w.Srv.Stats().Resumable; s.Expired < 4 || s.Held != 0 || s.Messages != 0 || s.Detached != 0 {
		t.Errorf("the target holds %+v", s)
	}
}

func TestStatusKeepsThePolicy(t *testing.T) {
	t.Parallel() // it mostly waits
	w := systemstest.NewWorld(t, refserver.Options{})
	d, rec := requests(t, mcpclient.EndpointOptions{URL: w.Srv.URL()}, driver.Options{Settings: sep975.Settings{
		Steps: 5, Step: 20 * time.Millisecond, MaxWait: 2 * time.Second,
		Disconnect: sep975.CutOne, At: 30 * time.Millisecond, Away: 2500 * time.Millisecond, StatusEvery: 250 * time.Millisecond,
	}})
	systemstest.Attach(t, d, 1)
	f := figuresAfter(t, d, rec, "requestsCompleted", 1)
	zero(t, f, bad...)
	if q := d.(driver.Figurer).Figures().Timings["resumeToResult"]; q.Histogram.TotalCount() == 0 {
		t.Error("no result that was waiting was timed")
	}
}

// What getStatus says is compared with what the lane knows.
func TestStatusIsCompared(t *testing.T) {
	t.Parallel() // it mostly waits
	completed := []byte(`"status":"completed"`)
	for name, c := range map[string]struct {
		answer func([]byte) []byte
		want   string
	}{
		"as it is":     {answer: func(b []byte) []byte { return b }},
		"no such word": {replace(`"status":"processing"`, `"status":"busy"`), "a status that is none of"},
		"nothing waits": {replace(`"status":"completed","hasPendingMessage":true`,
			`"status":"completed","hasPendingMessage":false`), "without a pending message"},
		"does not say":   {answer: replace(`"hasPendingMessage":true,`, ``)},
		"goes back, too": {nil, "goes back to processing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := systemstest.NewWorld(t, refserver.Options{SSEAnswers: true}) // so that answers are bent, too
			if c.answer == nil {
				var answers atomic.Int64 // every second one is of before
				c.answer = func(b []byte) []byte {
					if bytes.Contains(b, completed) && answers.Add(1)%2 == 0 {
						return bytes.Replace(b, completed, []byte(`"status":"processing"`), 1)
					}
					return b
				}
			}
			as := func(b []byte) []byte { return b }
			d, rec := requests(t, mcpclient.EndpointOptions{URL: bent(t, w, as, c.answer)}, driver.Options{Settings: sep975.Settings{
				Steps: 10, Step: 20 * time.Millisecond, MaxWait: time.Minute,
				Disconnect: sep975.CutOne, At: 30 * time.Millisecond, Away: 600 * time.Millisecond, StatusEvery: 40 * time.Millisecond,
			}})
			systemstest.Attach(t, d, 1)
			if c.want == "" {
				figuresAfter(t, d, rec, "requestsCompleted", 1)
			} else {
				rec.Wait(t, c.want, func(m *systemstest.Memory) bool { return strings.Contains(strings.Join(m.Log, "\n"), c.want) })
			}
			rec.Mu.Lock()
			defer rec.Mu.Unlock()
			for _, n := range rec.Notices {
				if n.Kind == eventmeter.Malformed && strings.Contains(n.Detail, "status") &&
					(c.want == "" || !strings.Contains(n.Detail, c.want)) {
					t.Errorf("noticed %q, want %q", n.Detail, c.want)
				}
			}
		})
	}
}

func TestTwoResumeAtOnce(t *testing.T) {
	t.Parallel() // it mostly waits
	// The connection that was superseded gets an error by SEP-975. In a session, an
	// error would be the response.
	for via, outcome := range map[string]string{sep975.ViaToken: "doublesOneRefused", sep975.ViaLastEventID: "doublesUntold"} {
		t.Run(via, func(t *testing.T) {
			t.Parallel()
			twoResumeAtOnce(t, via, outcome)
		})
	}
}

func twoResumeAtOnce(t *testing.T, via, outcome string) {
	w := systemstest.NewWorld(t, refserver.Options{})
	d, rec := requests(t, mcpclient.EndpointOptions{URL: w.Srv.URL()}, driver.Options{Subscriptions: 4, Settings: sep975.Settings{
		// Long enough that the second of two resumes meets a request that is
		// still at work, on a busy machine as well.
		Via: via, Steps: 100, Step: 50 * time.Millisecond, MaxWait: time.Minute,
		Disconnect: sep975.CutOne, At: 50 * time.Millisecond, Away: 20 * time.Millisecond, Double: 1, Tolerance: 5 * time.Second,
	}})
	systemstest.Attach(t, d, 4)
	f := figuresAfter(t, d, rec, "requestsCompleted", 4, "doubles")
	zero(t, f, slices.DeleteFunc(slices.Clone(bad), func(name string) bool { return name == outcome })...)
	if f[outcome] != f["doubles"] || f["resumes"] != 2*f["doubles"] {
		t.Errorf("figures %v", f)
	}
	if s := w.Srv.Stats().Resumable; s.Superseded < int64(f["doubles"]) {
		t.Errorf("the target's account: %+v", s)
	}
}

func TestServerHangsUp(t *testing.T) {
	t.Parallel() // it mostly waits
	for _, overlap := range []time.Duration{-1, time.Hour} {
		for _, via := range []string{sep975.ViaToken, sep975.ViaLastEventID} {
			t.Run(via+"/"+overlap.String(), func(t *testing.T) {
				t.Parallel()
				serverHangsUp(t, via, overlap)
			})
		}
	}
}

func serverHangsUp(t *testing.T, via string, overlap time.Duration) {
	w := systemstest.NewWorld(t, refserver.Options{ResumeOverlap: overlap})
	d, rec := requests(t, mcpclient.EndpointOptions{URL: w.Srv.URL()}, driver.Options{Settings: sep975.Settings{
		Via: via, Steps: 10, Step: 10 * time.Millisecond, HangUp: 3, MaxWait: time.Minute,
	}})
	systemstest.Attach(t, d, 1)
	f := figuresAfter(t, d, rec, "requestsCompleted", 2)
	// Every frame was read before the end of each connection: nothing is lost
	// even where the target counts as delivered what it wrote.
	zero(t, f, append(bad, "cuts")...)
	if overlap < 0 || via == sep975.ViaLastEventID {
		zero(t, f, "messagesRepeated")
	}
	if f["hangUps"] != 3*f["requestsCompleted"] || f["resumes"] != f["hangUps"] {
		t.Errorf("figures %v", f)
	}
	// The target says before each of its three ends to stay away for 100 ms.
	if least := d.(driver.Figurer).Figures().Timings["request"].Histogram.Min(); via == sep975.ViaLastEventID &&
		least < int64(299*time.Millisecond) {
		t.Errorf("a request took %v", time.Duration(least))
	}
	if s := w.Srv.Stats().Resumable; overlap < 0 && (s.Held != 0 || s.Messages != 0) {
		t.Errorf("the target holds %+v", s)
	}
}

// bent is the target behind a proxy that changes what passes.
func bent(t *testing.T, w *systemstest.World, request, response func([]byte) []byte) string {
	t.Helper()
	to, err := url.Parse(strings.TrimSuffix(w.Srv.URL(), "/mcp"))
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			if request != nil {
				body, _ := io.ReadAll(r.In.Body)
				body = request(body)
				r.Out.Body, r.Out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			}
		},
		ModifyResponse: func(r *http.Response) error {
			if response != nil && strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
				r.Body = &bentBody{ReadCloser: r.Body, change: response}
			}
			return nil
		},
		ErrorLog:     log.New(io.Discard, "", 0), // connections are cut all the time
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	srv := httptest.NewServer(proxy)
	t.Cleanup(func() {
		srv.Close()
		transport.CloseIdleConnections()
	})
	return srv.URL + "/mcp"
}

// bentBody changes the pieces of a stream. The target writes whole frames, and
// each arrives as it was flushed.
type bentBody struct {
	io.ReadCloser
	change func([]byte) []byte
	rest   []byte
}

func (b *bentBody) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		buf := make([]byte, 32<<10)
		n, err := b.ReadCloser.Read(buf)
		if b.rest = b.change(buf[:n]); len(b.rest) == 0 {
			return 0, err
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func replace(old, with string) func([]byte) []byte {
	return func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(old), []byte(with)) }
}

// TestFaultsAreSeen has a target do wrong, each time in one way.
func TestFaultsAreSeen(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{ResumeOverlap: time.Hour})
	cut := sep975.Settings{
		Steps:      6,
		Step:       20 * time.Millisecond,
		Disconnect: sep975.CutOne,
		At:         50 * time.Millisecond,
		Away:       20 * time.Millisecond,
		MaxWait:    time.Minute,
	}
	with := func(change func(o *sep975.Settings)) sep975.Settings {
		o := cut
		change(&o)
		return o
	}
	third := `"progress":3,"total"`
	for _, c := range []struct {
		name              string
		set               sep975.Settings
		request, response func([]byte) []byte
		until             string
		check             func(f map[string]float64) bool
	}{
		{"a policy that leaks", with(func(o *sep975.Settings) { o.Expire, o.Tolerance, o.Steps = 1, 50*time.Millisecond, 20 }), nil,
			replace(`"maxWait":60`, `"maxWait":0.1`), "policiesLeaked",
			func(f map[string]float64) bool { return f["requestsExpired"] == 0 && f["requestsCompleted"] > 0 }},
		{"a policy that ends early", with(func(o *sep975.Settings) { o.MaxWait, o.Away = 50*time.Millisecond, 500*time.Millisecond }), nil,
			replace(`"maxWait":0.05`, `"maxWait":60`), "policiesEarly",
			func(f map[string]float64) bool {
				return f["requestsFailed"] == f["policiesEarly"] && f["messagesLost"] > 0
			}},
		{"a message that is lost", cut, nil, replace(third, `"progress":"three","total"`), "requestsCompleted",
			func(f map[string]float64) bool { return f["messagesLost"] == f["requestsCompleted"] }},
		{"a message that is made up", cut, nil, replace(third, `"progress":7,"total"`), "requestsCompleted",
			func(f map[string]float64) bool {
				return f["messagesLost"] == f["requestsCompleted"] && f["messagesUnexpected"] > 0
			}},
		{"a result of another request", cut, nil, replace(`eventmeter-975-`, `eventmeter-X-`), "requestsCompleted",
			func(f map[string]float64) bool { return f["resultsWrong"] == f["requestsCompleted"] }},
		{"a wrong token that works", with(func(o *sep975.Settings) { o.Wrong = 1 }), func(b []byte) []byte {
			var m struct {
				Method string
				Params struct{ ResumeToken string }
			}
			if json.Unmarshal(b, &m) == nil && m.Method == "requests/resume" {
				return bytes.ReplaceAll(b, []byte(m.Params.ResumeToken), []byte(strings.TrimSuffix(m.Params.ResumeToken, "x")))
			}
			return b
		}, nil, "wrongAccepted", func(f map[string]float64) bool { return f["wrongUnclear"] == 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d, rec := requests(
				t,
				mcpclient.EndpointOptions{URL: bent(t, w, c.request, c.response), Era: mcpclient.Modern},
				driver.Options{Settings: c.set},
			)
			systemstest.Attach(t, d, 1)
			f := figuresAfter(t, d, rec, c.until, 1)
			if !c.check(f) {
				t.Errorf("figures %v", f)
			}
		})
	}
}

func TestNothingToResume(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{})
	ep, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: w.Srv.URL()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := systems.New(
		driver.Options{
			Clock:         eventmeter.NewClock(),
			Recorder:      systemstest.NewMemory(),
			Endpoint:      ep,
			System:        "sep-975",
			Mode:          eventmeter.Push,
			Subscriptions: 1,
		},
	); err == nil {
		t.Error("a lane without the capability was made")
	}
	for tool, want := range map[string]error{"server_stats": mcpclient.ErrNotOffered, "no-such-tool": mcpclient.ErrInvalid} {
		t.Run(tool, func(t *testing.T) {
			d, _ := requests(t, mcpclient.EndpointOptions{URL: w.Srv.URL()}, driver.Options{Settings: sep975.Settings{Tool: tool}})
			if err := d.Attach(t.Context(), 0); !errors.Is(err, want) {
				t.Errorf("attach: %v", err)
			}
		})
	}
}

// TestDetachGivesUp ends subscriptions whose requests are under way.
func TestDetachGivesUp(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{})
	d, _ := requests(t, mcpclient.EndpointOptions{URL: w.Srv.URL()}, driver.Options{Subscriptions: 3, Settings: sep975.Settings{
		Steps: 1000, Step: 50 * time.Millisecond, Disconnect: sep975.CutOne, At: time.Millisecond, Away: time.Hour,
	}})
	systemstest.Attach(t, d, 3)
	if err := d.Detach(t.Context(), 0); err != nil {
		t.Error(err)
	}
	if err := d.Attach(t.Context(), 0); err != nil {
		t.Error(err)
	}
	d.(driver.Phased).Drain()
	for i := range 3 {
		if err := d.Detach(t.Context(), i); err != nil {
			t.Error(err)
		}
	}
	f := d.(driver.Figurer).Figures().Values
	if got := fmt.Sprint(f["requestsAbandoned"], f["requestsUnfinished"], f["requestsBegun"], f["unbalanced"]); got != "1 3 4 0" {
		t.Errorf("abandoned, unfinished, begun, unbalanced: %s", got)
	}
	if f["messagesLost"]+f["messagesExcused"]+f["messagesDelivered"] != 4*1001 {
		t.Errorf("figures %v", f)
	}
}
