package sep975

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/defaults"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// ResumableRequests is the client capability of SEP-975. The endpoint of a lane
// of system sep-975 has to advertise it.
const ResumableRequests = "resumableRequests"

// The methods of SEP-975.
const (
	methodGetStatus = "requests/getStatus"
	methodResume    = "requests/resume"
)

// Which requests are cut, and when: see Settings.Disconnect.
const (
	CutNone  = "none"
	CutOne   = "one"
	CutShare = "share"
	CutAll   = "all"
)

// Settings shapes the long requests of a lane of system sep-975. Each
// subscription of the lane calls a slow tool, is cut off and resumes, and calls
// it again when the result is there, until the lane drains.
//
// The tool must report its progress as 1, 2, … Steps, and return a result that
// holds the argument note. It is given steps, stepMs and note, and where they
// are not zero logEvery, maxWait and hangUp, beside the lane's Arguments.
type Settings struct {
	// Tool is the tool's name; "" = work.
	Tool string
	// Steps per request (0 = 20), each of which takes Step (0 = 200 ms).
	Steps int
	Step  time.Duration
	// LogEvery asks for a log message after so many steps, whose data has a
	// member seq that counts them from 1; 0 = none.
	LogEvery int
	// MaxWait is the maxWait that the tool is asked for; 0 = not asked. What
	// counts is what the policy says.
	MaxWait time.Duration
	// HangUp asks the tool to have the server disconnect after so many messages
	// on one connection; 0 = not asked.
	HangUp int

	// Disconnect is CutNone (also ""), CutOne (each request is cut when it is At
	// old), CutAll (all that are connected At after the measured part began are
	// cut at once, and again after each Every) or CutShare (the same with a
	// Share of them, 0 to 1).
	Disconnect string
	Share      float64
	At, Every  time.Duration
	// Away is how long a client that cut its connection stays away.
	Away time.Duration
	// StatusEvery is the time between two getStatus while away; 0 = none.
	StatusEvery time.Duration
	// Expire is the share of requests, 0 to 1, that once cut stay away past
	// MaxWait and Tolerance, without asking for their status.
	Expire float64
	// Double is the share of resumes that two connections make at once.
	Double float64
	// Wrong is the share of resumes before which a resume with a wrong token
	// and one with a wrong id are tried.
	Wrong float64
	// Tolerance is how much longer than maxWait a policy may hold until it
	// counts as leaked; 0 = 1 s.
	Tolerance time.Duration
}

// WithDefaults returns the settings with every field filled in whose zero value
// stands for a default.
func (s Settings) WithDefaults() Settings {
	s.Tool = cmp.Or(s.Tool, defaults.SEP975Tool)
	s.Steps = cmp.Or(s.Steps, defaults.SEP975Steps)
	s.Step = cmp.Or(s.Step, defaults.SEP975Step)
	s.Disconnect = cmp.Or(s.Disconnect, CutNone)
	s.Tolerance = cmp.Or(s.Tolerance, defaults.SEP975Tolerance)
	return s
}

// lane is one lane of SEP-975.
type lane struct {
	mcpclient.Caller
	opts    driver.Options
	set     Settings
	logs    int // per request
	ep      *mcpclient.Endpoint
	hangUp  func() // closes the transport's connections
	traffic wire.Traffic
	watch   *sinks.Watch
	count   *account

	life context.Context
	end  context.CancelFunc
	work sync.WaitGroup

	drained atomic.Bool
	under   atomic.Int64 // requests under way
	tasks   []atomic.Pointer[task]

	mu     sync.Mutex
	closed bool
	runs   []*run // by index; nil = never attached
}

// Connections is how many connections a request has: those of two resumes
// that are made at once, and getStatus.
func Connections(*driver.Options) int { return 2 }

// New returns the driver of a lane of SEP-975.
func New(opts driver.Options) (driver.Driver, error) {
	d, err := newLane(opts)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func newLane(opts driver.Options) (*lane, error) {
	opts = opts.WithDefaults()
	set, err := driver.SettingsOf[Settings](&opts)
	set = set.WithDefaults()
	switch {
	case err != nil:
		return nil, err
	case opts.Mode != eventmeter.Push:
		return nil, fmt.Errorf("driver sep-975: mode %q: use push", opts.Mode)
	case set.Steps < 0, set.LogEvery < 0, set.HangUp < 0:
		return nil, errors.New("driver sep-975: steps, logEvery and hangUp must be 0 or more")
	case !slices.Contains([]string{CutNone, CutOne, CutShare, CutAll}, set.Disconnect):
		return nil, fmt.Errorf("driver sep-975: disconnect %q is not known: use none, one, share or all", set.Disconnect)
	case opts.Endpoint != nil && !opts.Endpoint.Advertises(ResumableRequests):
		return nil, errors.New("driver sep-975: the endpoint does not advertise the capability " + ResumableRequests)
	case opts.Clock == nil, opts.Recorder == nil, opts.Endpoint == nil:
		return nil, errors.New("driver sep-975: Clock, Recorder and Endpoint must be set")
	case opts.Subscriptions < 0:
		return nil, fmt.Errorf("driver sep-975: %d subscriptions", opts.Subscriptions)
	}
	d := &lane{
		opts: opts, set: set, ep: opts.Endpoint, count: newAccount(opts.Clock),
		tasks: make([]atomic.Pointer[task], opts.Subscriptions), runs: make([]*run, opts.Subscriptions),
	}
	if set.LogEvery > 0 {
		d.logs = set.Steps / set.LogEvery
	}
	t, hangUp, err := d.ep.NewTransport(opts.HTTP, &d.traffic, true)
	if err != nil {
		return nil, fmt.Errorf("driver sep-975: %w", err)
	}
	d.hangUp = hangUp
	d.Caller = driver.LaneCaller(&opts, t, &d.traffic)
	d.life, d.end = context.WithCancel(context.Background())
	d.watch = sinks.NewWatch(opts.Clock, min(max(opts.Push.Heartbeat/8, 10*time.Millisecond), time.Second))
	return d, nil
}

// Begin implements [Phased].
func (d *lane) Begin(measure, until eventmeter.Instant) {
	d.count.begin(measure, until)
	if d.set.Disconnect == CutShare || d.set.Disconnect == CutAll {
		d.work.Go(func() {
			defer crash.Guard()
			d.cutAll(measure.Add(d.set.At), until)
		})
	}
}

// Drain implements [Phased].
func (d *lane) Drain() { d.drained.Store(true) }

// Pending implements [Phased].
func (d *lane) Pending() int64 { return d.under.Load() }

// Figures implements [Figurer].
func (d *lane) Figures() driver.Figures { return d.count.figures() }

// cutAll cuts connections together, from an instant on until another.
func (d *lane) cutAll(at, until eventmeter.Instant) {
	for round := 0; at < until; round++ {
		if !sinks.Sleep(d.life, at.Sub(d.Clock.Now())) {
			return
		}
		for i := range d.tasks {
			if t := d.tasks[i].Load(); t != nil && (d.set.Disconnect == CutAll || d.draw(i, round, "cut") < d.set.Share) {
				t.cut()
			}
		}
		if d.set.Every <= 0 {
			return
		}
		at = at.Add(d.set.Every)
	}
}

// draw gives a number from 0 to below 1 that is the same for the same seed.
func (d *lane) draw(i, n int, what string) float64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d/%d/%d/%d/%s", d.opts.Seed, d.opts.Lane, d.opts.NumberOf(i), n, what)
	// FNV mixes its low bits best; the rest follows from another round.
	v := h.Sum64()
	v ^= v >> 33
	v *= 0xff51afd7ed558ccd
	v ^= v >> 33
	return float64(v>>11) / (1 << 53)
}

// header returns the header fields of a method's requests.
func (d *lane) header(a *mcpclient.Session, method string) http.Header {
	if method == mcpclient.MethodCall {
		return a.Header(method, d.set.Tool)
	}
	return a.Header(method, "")
}

// arguments are those of one call of the tool.
func (d *lane) arguments(r *run, note string) ([]byte, error) {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(r.args, &members); err != nil {
		return nil, fmt.Errorf("%w: arguments: %w", mcpclient.ErrInvalid, err)
	}
	number := func(name string, v float64) {
		if v != 0 {
			members[name] = strconv.AppendFloat(nil, v, 'f', -1, 64)
		}
	}
	number("steps", float64(d.set.Steps))
	number("stepMs", float64(d.set.Step)/float64(time.Millisecond))
	number("logEvery", float64(d.set.LogEvery))
	number("maxWait", d.set.MaxWait.Seconds())
	number("hangUp", float64(d.set.HangUp))
	members["note"] = wire.AppendString(nil, note)
	return json.Marshal(members)
}
