package mcpevents

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/upstream"
	"github.com/grafana/sobek"
	"github.com/sirupsen/logrus"
)

// source is the object Upstream, which causes events at the target. Its exported
// methods are those of the script's object.
type source struct {
	m      *instance
	opts   *upstreamOptions
	topic  uint16
	where  string // an address, or the name of a tool
	count  wire.Traffic
	passed *meter // of count, or of the feed

	mu sync.Mutex
	up upstream.Upstream // nil until it is needed
}

// upstream makes an Upstream. It connects when it publishes; a feed listens at once.
func (m *instance) upstream(options sobek.Value) (*source, error) {
	o, err := readUpstream(options)
	if err != nil {
		return nil, err
	}
	s := &source{m: m, opts: o, where: cmp.Or(o.Admin, o.URL, o.Tool, o.Feed)}
	if s.topic, err = m.hub.topic(o.Topic); err != nil {
		return nil, err
	}
	if err = m.hub.ready(); err != nil {
		return nil, err
	}
	if o.Feed != "" {
		f, err := m.feed(o)
		if err != nil {
			return nil, err
		}
		s.up, s.passed = f, f.passed
		return s, nil
	}
	if _, err = s.build(&network{}); err != nil { // only looked at: there are no connections
		return nil, err
	}
	s.passed = &meter{totals: totalsOf(&s.count)}
	m.until(s.end)
	return s, nil
}

// open makes the upstream itself, when it is first used: the init context does
// not know how the VU connects.
func (s *source) open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.up != nil {
		return nil
	}
	if s.opts.client != nil {
		if _, err := s.opts.client.met(); err != nil {
			return err
		}
	}
	n, err := networkOf(s.m.vu.State(), s.m.hub.guard)
	if err != nil {
		return err
	}
	s.up, err = s.build(&n)
	return err
}

// end closes idle connections.
func (s *source) end(context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.up != nil {
		_ = s.up.Close()
		s.passed.rest()
	}
}

// build makes the upstream itself, unless it is a feed.
func (s *source) build(n *network) (upstream.Upstream, error) {
	o := s.opts
	dial := upstream.DialFunc(s.count.Dial(n.dial))
	client := upstream.ClientOptions{Timeout: o.Timeout.or(0), Connections: o.Workers, TLS: n.tls, Dial: dial}
	switch {
	case o.Admin != "":
		return upstream.NewInject(upstream.InjectOptions{Admin: o.Admin, Event: o.Event, Payload: o.payload, ClientOptions: client})
	case o.Tool != "":
		return upstream.NewTool(upstream.ToolOptions{Arguments: o.payload, Timeout: o.Timeout.or(0), Call: s.call})
	}
	return upstream.NewHTTP(upstream.HTTPOptions{Method: o.Method, Request: o.request, ClientOptions: client})
}

// call calls the tool, as the client's first principal.
func (s *source) call(ctx context.Context, _ int, arguments []byte) mcpclient.ToolAnswer {
	c := s.opts.client
	c.groups.begin()
	defer c.groups.end()
	ep, err := c.met() // made by open
	if err != nil {
		return mcpclient.ToolAnswer{Failure: err.Error()}
	}
	a, _ := ep.CallTool(ctx, 0, s.opts.Tool, arguments) // the answer has the error's text
	return a
}

// fireOptions are the argument of fire, where it is not a number.
type fireOptions struct {
	Count int     `json:"count"`
	Rate  float64 `json:"rate"`
}

// fired is the result of fire().
type fired struct {
	Fired     uint64 `js:"fired" json:"fired"`
	Accepted  uint64 `js:"accepted" json:"accepted"`
	Uncertain uint64 `js:"uncertain" json:"uncertain"`
	Refused   uint64 `js:"refused" json:"refused"`
	Dropped   uint64 `js:"dropped" json:"dropped"`
}

// Fire publishes events and resolves when each is answered. Without a rate they
// are published one after the other; with a rate, in an open loop: an event
// without a free worker in time is dropped and counted, never published late.
func (s *source) Fire(options sobek.Value) *sobek.Promise {
	fail := func(err error) *sobek.Promise { return s.m.rejected(fmt.Errorf("fire: %w", err)) }
	if s.m.vu.State() == nil {
		return fail(errors.New("call it in setup() or an iteration, not in the init context"))
	}
	o := fireOptions{Count: 1}
	if options != nil && sobek.IsNumber(options) {
		o.Count = int(options.ToInteger())
	} else if err := decode(options, &o); err != nil {
		return fail(err)
	}
	if err := checkCount("count", int64(o.Count)); err != nil {
		return fail(err)
	}
	if o.Rate < 0 {
		return fail(errors.New("options: rate must not be negative"))
	}
	if err := s.open(); err != nil {
		return fail(err)
	}
	ctx, log, from := s.m.vu.Context(), s.m.vu.State().Logger, s.m.origin()
	promise, resolve, reject := s.m.promised()
	s.m.hub.life.work.Go(func() {
		stats, err := s.fire(ctx, o)
		s.passed.send(from)
		if err != nil {
			reject(fmt.Errorf("fire: %w", err))
			return
		}
		s.warn(log, &stats)
		resolve(fired{stats.Fired, stats.Accepted, stats.Uncertain, stats.Refused, stats.Dropped})
	})
	return promise
}

// warn logs, once per process, that an upstream refuses events; otherwise only the
// counts would show it.
func (s *source) warn(log logrus.FieldLogger, n *loadgen.Counts) {
	if n.Refused+n.Uncertain == 0 {
		return
	}
	if _, said := s.m.hub.warned.LoadOrStore(s.where, true); !said {
		why := ""
		s.mu.Lock()
		up := s.up
		s.mu.Unlock()
		if e, ok := up.(upstream.Explainer); ok {
			if _, latest := e.Failures(); latest != "" {
				why = " The last failure: " + s.clean(latest) + "."
			}
		}
		log.Warnf(
			"Upstream %s: of %d events %d were refused, and for %d there was no answer: is it there, and does it know "+
				"%s?%s (said once; fire() gives the counts)",
			errtext.Address(s.where),
			n.Fired,
			n.Refused,
			n.Uncertain,
			s.opts.Event,
			why,
		)
	}
}

// clean makes text from the far side safe to print.
func (s *source) clean(said string) string {
	if c := s.opts.client; c != nil {
		return c.secrets.Scrub(said)
	}
	own := mcpclient.EndpointOptions{URL: s.where, Headers: s.opts.Headers}
	return errtext.NewSecrets(secretsOf(own)...).Scrub(said)
}

func (s *source) fire(ctx context.Context, o fireOptions) (loadgen.Counts, error) {
	if o.Rate == 0 {
		return s.row(ctx, o.Count), nil
	}
	base := uint64(s.topic) << topicShift
	f, err := loadgen.NewFiring(loadgen.FiringOptions{
		Clock: s.m.hub.clock, Recorder: s.m.hub, Stamper: s.m.hub.stamper, Schedule: loadgen.Constant{Rate: o.Rate},
		Duration: time.Duration((float64(o.Count) - 0.5) / o.Rate * float64(time.Second)),
		Number:   func(n uint64) uint64 { return base + n },
	})
	if err != nil {
		return loadgen.Counts{}, err
	}
	return loadgen.Loop(ctx, f, loadgen.LoopOptions{Fire: s.up.Fire, Workers: s.opts.Workers}), nil
}

// row publishes events one after the other.
func (s *source) row(ctx context.Context, count int) loadgen.Counts {
	var out loadgen.Counts
	clock := s.m.hub.clock
	for range count {
		if ctx.Err() != nil {
			break
		}
		emission := s.m.hub.stamper.Stamp(uint64(s.topic)<<topicShift, clock.Now(), true)
		// An event that was sent is resolved, also when the iteration is interrupted.
		outcome := s.up.Fire(context.WithoutCancel(ctx), emission)
		s.m.hub.Resolved(emission.Stamp, outcome, clock.Now())
		out.Fired++
		switch outcome {
		case eventmeter.Accepted:
			out.Accepted++
		case eventmeter.Uncertain:
			out.Uncertain++
		default:
			out.Refused++
		}
	}
	return out
}

// upstreamOptions are the argument of Upstream.
type upstreamOptions struct {
	Event   string            `json:"event"`
	Topic   string            `json:"topic"`
	Admin   string            `json:"admin"`
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
	Tool    string            `json:"tool"`
	Client  json.RawMessage   `json:"client"`
	Feed    string            `json:"feed"`
	Data    json.RawMessage   `json:"data"`
	Timeout *duration         `json:"timeout"`
	Workers int               `json:"workers"`

	client *client
}

// probeMark is where a payload gets the probe id, seqMark the emission's number.
var probeMark, seqMark = []byte("{probe}"), []byte("{seq}")

// readUpstream reads and checks the options, and sets the defaults.
func readUpstream(v sobek.Value) (*upstreamOptions, error) {
	o := &upstreamOptions{}
	if err := decode(v, o); err != nil {
		return nil, err
	}
	kinds := 0
	for _, kind := range []string{o.Admin, o.URL, o.Tool, o.Feed} {
		if kind != "" {
			kinds++
		}
	}
	o.client = objectAt[*client](v, "client")
	switch {
	case o.Event == "":
		return nil, errors.New("options: event must be given")
	case kinds != 1:
		return nil, errors.New("options: give one of admin (the admin listener of a reference server), url, tool and feed")
	case o.URL == "" && (o.Method != "" || o.Headers != nil):
		return nil, errors.New("options: method and headers belong to url")
	case (o.Tool != "") != (o.Client != nil):
		return nil, errors.New("options: tool and client belong together")
	case o.Client != nil && o.client == nil:
		return nil, errors.New("options: client must be a Client")
	case o.Feed != "" && o.Timeout != nil:
		return nil, errors.New("options: timeout is not for feed, which sends nothing itself")
	}
	if o.Data == nil {
		o.Data = json.RawMessage(`{"text":"{probe}"}`)
	}
	if !bytes.Contains(o.Data, probeMark) && !bytes.Contains([]byte(o.URL), probeMark) {
		return nil, errors.New("options: data must hold {probe}, by which deliveries are recognised")
	}
	if o.Topic == "" {
		o.Topic = o.Event
	}
	return o, nil
}

// fill replaces {probe} and {seq} in a text.
func fill(text []byte, seq uint32, probe string) []byte {
	text = bytes.ReplaceAll(text, probeMark, []byte(probe))
	return bytes.ReplaceAll(text, seqMark, strconv.AppendUint(nil, uint64(seq), 10))
}

// payload appends the data of an event to dst.
func (o *upstreamOptions) payload(dst []byte, _ int, seq uint32, probe string) []byte {
	return append(dst, fill(o.Data, seq, probe)...)
}

// request makes the request of one emission.
func (o *upstreamOptions) request(_ int, seq uint32, probe string) (string, http.Header, []byte) {
	h := http.Header{"Content-Type": {"application/json"}}
	for k, v := range o.Headers {
		h.Set(k, v)
	}
	return string(fill([]byte(o.URL), seq, probe)), h, fill(o.Data, seq, probe)
}

// sharedFeed is the change feed at an address.
type sharedFeed struct {
	*upstream.Feed
	passed *meter
}

// feed makes a change feed, or finds the one at the same address: it has one
// port, and every VU runs the same script.
func (m *instance) feed(o *upstreamOptions) (*sharedFeed, error) {
	made := *o
	made.Workers = 0
	key, err := json.Marshal(made)
	if err != nil {
		return nil, err
	}
	return sharedOf(&m.hub.life, "feed "+string(key), func() (*sharedFeed, func(context.Context), error) {
		count := new(wire.Traffic)
		f, err := upstream.NewFeed(upstream.FeedOptions{Listen: o.Feed, Event: o.Event, Payload: o.payload, Wrap: count.Listener})
		if err != nil {
			return nil, nil, err
		}
		passed := &meter{totals: totalsOf(count)}
		return &sharedFeed{f, passed}, func(context.Context) {
			_ = f.Close() // nothing is in flight at the end of the test
			passed.rest()
		}, nil
	})
}
