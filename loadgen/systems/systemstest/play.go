package systemstest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"golang.org/x/tools/txtar"
)

// signOld is the older revision's signature, made with the standard library.
func signOld(secret string, at time.Time, body string) string {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return err.Error()
	}
	return signRaw(string(key), at, body)
}

// A wire file is a conversation, written by hand. Its first section, lane, is
// a JSON object that configures the lane. The others are played in order:
//
//	request   what the lane must send, to the byte
//	answer    the server's answer to the request
//	deliver   a webhook delivery that the server makes
//	reply     the lane's answer to the delivery
//	stream    what the server sends on the open stream
//	await     a report that the recorder must have before the play goes on
//	told      all reports that the recorder must have at the end
//	figures   figures of the lane at the end; there may be others
//
// An answer begins with its status, and "hold" if the response stays open. In
// the lane's requests the parts that differ from run to run are written <url>,
// <secret> and <own>. In a delivery's headers, "sign" stands for a correct
// signature, "sign-former" for one with the former secret, "sign-both" for both,
// "sign-old" for one of the older revision, "sign-text" for one with the secret's
// text as key, "sign-raw" for one with a raw secret of SEP-1803, and "now-600" for
// a time.
type laneFile struct {
	driver.Webhook

	System    string
	Settings  json.RawMessage // of the system
	Mode      eventmeter.Mode
	Era       mcpclient.Era // as the server is
	Revision  mcpclient.Revision
	Arguments json.RawMessage
	Tokens    []string
	Discover  bool // ask for the offer instead of attaching
	Detach    bool // after everything else
	Fails     bool // attach has to fail

	MaxAge, LongPoll, Heartbeat, MinInterval, Backoff string

	MaxEvents int
}

type step struct {
	kind string
	text string
}

// play is a conversation in progress.
type play struct {
	t   *testing.T
	cfg laneFile

	mu       sync.Mutex
	moved    *sync.Cond
	steps    []step
	at       int
	over     bool
	awaiting bool // the step before was an await that is not over
	url      string
	secret   string
	former   string // the secret before
	// drain, if not nil, is called when a request has come, before its answer, so
	// that the lane begins no other one.
	drain func()
	ended chan struct{}
	more  chan string // what the open stream sends next
}

// PlayFiles plays every wire file that a pattern matches.
func PlayFiles(t *testing.T, pattern string) {
	eachFile(t, pattern, func(t *testing.T, _ string, a *txtar.Archive) { playFile(t, a) })
}

// eachFile plays every file that a pattern matches.
func eachFile(t *testing.T, pattern string, play func(t *testing.T, name string, a *txtar.Archive)) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(f)
			if err != nil {
				t.Fatal(err)
			}
			play(t, f, archive)
		})
	}
}

// decodeStrictly decodes JSON whose fields are all known.
func decodeStrictly(t *testing.T, text []byte, into any) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		t.Fatal(err)
	}
}

func playFile(t *testing.T, a *txtar.Archive) {
	p := &play{t: t, more: make(chan string), ended: make(chan struct{})}
	p.moved = sync.NewCond(&p.mu)
	var told, figures string
	for _, f := range a.Files {
		switch f.Name {
		case "lane":
			decodeStrictly(t, f.Data, &p.cfg)
		case "told":
			told = string(f.Data)
		case "figures":
			figures = strings.TrimSpace(string(f.Data))
		case "request", "answer", "deliver", "reply", "await", "stream":
			p.steps = append(p.steps, step{f.Name, strings.TrimSuffix(string(f.Data), "\n")})
		default:
			t.Fatalf("section %q is not known", f.Name)
		}
	}
	srv := httptest.NewServer(p)
	t.Cleanup(srv.Close) // after the lane's, whose streams are held open here
	t.Cleanup(p.release)
	defer p.release()
	e := mcpclient.EndpointOptions{URL: srv.URL + "/mcp", Revision: p.cfg.Revision, Tokens: p.cfg.Tokens}
	of, err := systems.Find(p.cfg.System)
	if err != nil {
		t.Fatal(err)
	}
	e.Capabilities = of.Capabilities
	d, rec := Lane(t, e, p.options())
	phased, own := d.(driver.Phased)
	if own {
		p.drain = phased.Drain // one piece of work is enough
	}
	done := make(chan struct{})
	go func() {
		defer crash.Guard()
		defer close(done)
		p.deliveries(d, rec)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	stop := context.AfterFunc(ctx, p.release)
	defer stop()
	if p.cfg.Discover {
		o, err := d.(driver.Discoverer).Discover(ctx)
		rec.keep(func() {})
		told = strings.TrimSpace(told)
		if got := offerText(o, err); got != told {
			t.Errorf("offer:\n%s\nwant:\n%s", got, told)
		}
		p.release()
		<-done
		return
	}
	p.attach(ctx, d)
	p.mu.Lock()
	for !p.over && (p.awaiting || p.at < len(p.steps) && !(p.cfg.Detach && p.steps[p.at].kind == "request" && p.at >= len(p.steps)-2)) {
		p.moved.Wait()
	}
	p.mu.Unlock()
	p.end(ctx, d, rec, told)
	if figures != "" {
		if own {
			Drained(t, d)
		}
		// A call is told before what its answer said is counted.
		var wrong []string
		for wrong = misfigured(d, figures); wrong != nil && ctx.Err() == nil; wrong = misfigured(d, figures) {
			runtime.Gosched()
		}
		for _, w := range wrong {
			t.Error(w)
		}
	}
	p.release()
	<-done
}

// misfigured lists the figures that differ from those in the file.
func misfigured(d driver.Driver, figures string) (wrong []string) {
	got := d.(driver.Figurer).Figures()
	for line := range strings.SplitSeq(figures, "\n") {
		name, value, _ := strings.Cut(line, " ")
		count := fmt.Sprint(got.Values[name])
		if h := got.Timings[name].Histogram; h != nil {
			count = fmt.Sprint(h.TotalCount())
		}
		if count != value {
			wrong = append(wrong, fmt.Sprintf("figure %s is %s, want %s", name, count, value))
		}
	}
	return wrong
}

func (p *play) options() driver.Options {
	c := p.cfg
	dur := func(s string) time.Duration {
		if s == "" {
			return 0
		}
		v, err := time.ParseDuration(s)
		if err != nil {
			p.t.Fatal(err)
		}
		return v
	}
	o := driver.Options{
		System:    c.System,
		Mode:      c.Mode,
		Event:     "ticket.moved",
		MaxAge:    dur(c.MaxAge),
		Arguments: func(int) json.RawMessage { return c.Arguments },
		Poll:      &driver.Poll{MinInterval: cmp.Or(dur(c.MinInterval), time.Second), Timeout: dur(c.LongPoll), MaxEvents: c.MaxEvents},
		Push:      driver.Push{Heartbeat: dur(c.Heartbeat), Backoff: driver.Backoff{Min: dur(c.Backoff), Max: dur(c.Backoff)}},
		Webhook:   c.Webhook,
	}
	if of, _ := systems.Table.Find(c.System); of.Settings != nil {
		set := of.Settings(string(c.Mode))
		if len(c.Settings) > 0 {
			decodeStrictly(p.t, c.Settings, set)
		}
		o.Settings = set
	}
	return o
}

// attach attaches the lane.
func (p *play) attach(ctx context.Context, d driver.Driver) {
	if err := d.Attach(ctx, 0); (err != nil) != p.cfg.Fails {
		p.t.Errorf("attach: %v", err)
	}
}

// end detaches the lane where the file says so, and compares what the recorder was told.
func (p *play) end(ctx context.Context, d driver.Driver, rec *Memory, told string) {
	if p.cfg.Detach {
		if err := d.Detach(ctx, 0); err != nil {
			p.t.Errorf("detach: %v", err)
		}
	}
	want := shortened(told)
	rec.Wait(p.t, "the end of the conversation", func(m *Memory) bool { return len(m.Log) >= len(want) || ctx.Err() != nil })
	rec.Mu.Lock()
	defer rec.Mu.Unlock()
	if got := shortened(strings.Join(rec.Log, "\n")); !slices.Equal(got, want) {
		p.t.Errorf("told:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// release releases everything that waits for its turn.
func (p *play) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		p.over = true
		close(p.ended)
	}
	p.moved.Broadcast()
}

// turn waits until the next step is of one of these kinds, and takes it.
func (p *play) turn(kinds ...string) (step, bool) { return p.turnWith(nil, kinds...) }

// turnWith is turn, and calls taken, if it is not nil, before the next step can be taken.
func (p *play) turnWith(taken func(), kinds ...string) (step, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.over && !(!p.awaiting && p.at < len(p.steps) && slices.Contains(kinds, p.steps[p.at].kind)) {
		if p.at == len(p.steps) && kinds[0] == "deliver" {
			return step{}, false
		}
		p.moved.Wait()
	}
	if p.over {
		return step{}, false
	}
	s := p.steps[p.at]
	p.at++
	if taken != nil {
		taken()
	}
	p.awaiting = s.kind == "await"
	p.moved.Broadcast()
	return s, true
}

var (
	urlPattern    = regexp.MustCompile(`"(url|targetUri)":"([^"]*)"`)
	secretPattern = regexp.MustCompile(`"secret":"(whsec_[^"]{44})"`)
	madePattern   = regexp.MustCompile(`"webhookSecret":\{"type":"(?:raw","value|standard","key)":"([^"]*)"`)
	ownPattern    = regexp.MustCompile(`"id":"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"`)
)

// deliveries plays the server's deliveries when their turn has come.
func (p *play) deliveries(d driver.Driver, rec *Memory) {
	pool := x509.NewCertPool()
	if r, ok := d.(driver.Receiver); ok {
		pool.AppendCertsFromPEM(r.CertPEM())
	}
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer c.CloseIdleConnections()
	for {
		s, ok := p.turn("deliver", "await", "stream")
		if !ok {
			return
		}
		if s.kind == "stream" {
			select {
			case p.more <- s.text:
			case <-p.ended:
			}
			continue
		}
		if s.kind == "await" {
			rec.Wait(p.t, s.text, func(m *Memory) bool { return slices.Contains(m.Log, s.text) })
			p.mu.Lock()
			p.awaiting = false
			p.moved.Broadcast()
			p.mu.Unlock()
			continue
		}
		got, err := p.deliver(c, s.text)
		want, _ := p.turn("reply") // only now: what comes next waits for this
		if got != want.text || err != nil {
			p.t.Errorf("reply %q (%v), want %q", got, err, want.text)
		}
	}
}

func (p *play) deliver(c *http.Client, text string) (string, error) {
	p.mu.Lock()
	url, secret, former := p.url, p.secret, p.former
	p.mu.Unlock()
	head, body, _ := strings.Cut(text, "\n\n")
	if strings.HasPrefix(head, "path: ") {
		var path string
		path, head, _ = strings.Cut(strings.TrimPrefix(head, "path: "), "\n")
		url = url[:strings.Index(url, "/h/")] + path
	}
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	now := time.Now()
	sign := func(wh *standardwebhooks.Webhook, err error) (string, error) {
		if err != nil {
			return "", err
		}
		return wh.Sign(req.Header.Get("Webhook-Id"), now, []byte(body))
	}
	sc := bufio.NewScanner(strings.NewReader(head))
	for sc.Scan() {
		k, v, _ := strings.Cut(sc.Text(), ": ")
		if off, ok := strings.CutPrefix(v, "now"); ok {
			seconds, _ := strconv.Atoi(off)
			now = now.Add(time.Duration(seconds) * time.Second)
			v = strconv.FormatInt(now.Unix(), 10)
		}
		switch v {
		case "sign", "sign-former", "sign-both":
			secrets := map[string][]string{"sign": {secret}, "sign-former": {former}, "sign-both": {secret, former}}[v]
			v = ""
			for _, s := range secrets {
				one, err := sign(standardwebhooks.NewWebhook(s))
				if err != nil {
					return "", err
				}
				v = strings.TrimSpace(v + " " + one)
			}
		case "sign-text": // by the secret's text as key
			if v, err = sign(standardwebhooks.NewWebhookRaw([]byte(secret))); err != nil {
				return "", err
			}
		case "sign-raw":
			v = signRaw(secret, now, body)
		case "sign-old":
			v = signOld(secret, now, body)
		}
		req.Header.Set(k, v)
	}
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return strings.TrimSpace(strconv.Itoa(resp.StatusCode) + " " + string(answer)), err
}

func offerText(o driver.Offer, err error) string {
	var b strings.Builder
	fmt.Fprintf(&b, "era %s version %q server %q capability %q listChanged %t\n", o.Era, o.Version, o.Server, o.Capability, o.ListChanged)
	for _, e := range o.Events {
		fmt.Fprintf(&b, "event %s %v\n", e.Name, e.Delivery)
	}
	if err != nil {
		fmt.Fprintf(&b, "error %v\n", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	return strings.TrimSpace(regexp.MustCompile(`http://127[^ ]*/mcp`).ReplaceAllString(b.String(), "<endpoint>"))
}

// signRaw signs as a raw secret of SEP-1803 does, with the standard library.
func signRaw(secret string, at time.Time, body string) string {
	h := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(h, "%d.%s", at.Unix(), body)
	return hex.EncodeToString(h.Sum(nil))
}

func Drained(t *testing.T, d driver.Driver) {
	t.Helper()
	p := d.(driver.Phased)
	p.Drain()
	deadline := time.After(Patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for p.Pending() > 0 {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%d requests are still under way", p.Pending())
		}
	}
}
