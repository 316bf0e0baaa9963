// Package selfbench measures what eventmeter's client side costs: memory per
// stream, CPU per delivery, measuring error, streams opened per second and
// allocations. One run measures it beside baselines, the smallest programs that
// could do the job, and beside the clients that people would use instead. Every
// client and every target is a process of its own.
package selfbench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/internal/health"
)

// Options of a run. The zero value measures everything at full size.
type Options struct {
	// Only names rows; empty = all.
	Only []string
	// Scale multiplies numbers of streams and lengths of time; 0 = 1, at most 4.
	Scale float64
	// Repeats is how often clients that are compared are measured, in turn; the
	// report has medians. 0 = 3, at most 15.
	Repeats int
	// RowTime bounds each row; 0 = 12 min.
	RowTime time.Duration
	// Self starts this program as a child; nil = [Self].
	Self []string
	// Progress gets a line for each measurement; nil = none.
	Progress io.Writer
	// Profiles is a folder for CPU profiles of the clients during the paced
	// phase, and heap profiles before it; "" = none. Profiling costs one or two per cent.
	Profiles string
	// Files is how many files a process may open; 0 = the limit of this process.
	Files int
}

// ErrOptions is wrapped by the errors of Run about invalid options.
var ErrOptions = errors.New("eventbench")

func (o Options) withDefaults() (Options, error) {
	if o.Scale == 0 {
		o.Scale = 1
	}
	if o.Repeats == 0 {
		o.Repeats = 3
	}
	if o.RowTime == 0 {
		o.RowTime = 12 * time.Minute
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.Files == 0 {
		o.Files = int(min(health.FileLimit(), 1<<30))
	}
	switch {
	case !(o.Scale >= 0.001 && o.Scale <= 4):
		return o, fmt.Errorf("%w: scale %g: use 0.001 to 4", ErrOptions, o.Scale)
	case o.Repeats < 1 || o.Repeats > 15:
		return o, fmt.Errorf("%w: %d repeats: use 1 to 15", ErrOptions, o.Repeats)
	case o.RowTime < time.Second:
		return o, fmt.Errorf("%w: %v for a row: use 1s or more", ErrOptions, o.RowTime)
	}
	if o.Profiles != "" {
		if err := os.MkdirAll(o.Profiles, 0o777); err != nil {
			return o, fmt.Errorf("%w: profiles: %w", ErrOptions, err)
		}
	}
	for _, name := range o.Only {
		if !slices.ContainsFunc(rows, func(r row) bool { return r.name == name }) {
			return o, fmt.Errorf("%w: no row %q: use %s", ErrOptions, name, strings.Join(RowNames(), ", "))
		}
	}
	if o.Self == nil {
		var err error
		if o.Self, err = Self(); err != nil {
			return o, err
		}
	}
	return o, nil
}

// RowNames returns the rows in the order in which they are measured.
func RowNames() []string {
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.name
	}
	return names
}

// Run measures the rows and returns the report, which has the reason of a row
// that failed. The error wraps [ErrOptions], or is that of ctx.
func Run(ctx context.Context, o Options) (*Report, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	rep := &Report{Schema: Schema, Began: time.Now().UTC(), Scale: o.Scale, Repeats: o.Repeats, Machine: machineFacts(ctx)}
	r := &runner{opts: o, report: rep, done: map[plan][]*figures{}}
	for _, row := range rows {
		if len(o.Only) > 0 && !slices.Contains(o.Only, row.name) {
			continue
		}
		r.row = &Row{Name: row.name, Title: row.title}
		fmt.Fprintf(o.Progress, "%s: %s\n", row.name, row.title)
		limited, cancel := context.WithTimeout(ctx, o.RowTime)
		began := time.Now()
		err := row.measure(limited, r)
		if errors.Is(limited.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("it took more than %v; use a longer --row-time or a smaller --scale", o.RowTime)
		}
		cancel()
		if ctx.Err() != nil {
			return rep, ctx.Err()
		}
		if err != nil {
			r.row.Failed = err.Error()
		}
		r.row.Took = time.Since(began)
		rep.Rows = append(rep.Rows, *r.row)
	}
	rep.Took = time.Since(rep.Began)
	rep.noteNoise()
	return rep, nil
}

// rows are in the order in which they are measured. A row uses a measurement of
// an earlier row where both need the same one.
var rows = []row{
	{"push1", "Push over HTTP/1.1", measurePush1},
	{"push2", "Push over HTTP/2", measurePush2},
	{"million", "A million streams over HTTP/2", measureMillion},
	{"error", "Measuring error: write on the wire → recorded", measureError},
	{"sustained", "10,000 streams × 5 events/s, sustained", measureSustained},
	{"opening", "Opening streams", measureOpening},
	{"poll", "Polling", measurePoll},
	{"webhook", "Webhook subscriptions", measureWebhook},
	{"deliveries", "Signed deliveries over TLS, connections kept", measureDeliveries},
	{"allocations", "Allocations per delivery", measureAllocations},
	{"operations", "Single operations", measureOperations},
	{"ledger", "The ledger's share of CPU", measureLedger},
	{"judging", "What judging conformance adds", measureJudging},
	{"sdk", "The official Go SDK's client", measurePeer},
	{"curve", "Growth", measureCurve},
}

func roles() map[string]role {
	return map[string]role{
		"baseline":   serveBaseline,
		"reference":  serveReference,
		"sdkserver":  serveSDK,
		"sender":     serveSender,
		"eventmeter": measure(newLane),
		"reader":     measure(newReaders),
		"epoll":      measure(newEpoll),
		"framer":     measure(newFramers),
		"sdk":        measure(newSessions),
		"plain":      measure(newPlainHook),
		"micro":      runMicro,
	}
}

// Child is the main function of a child process: it reads its role from in,
// reports to out, and ends when in is closed.
func Child(ctx context.Context, in io.Reader, out io.Writer) error {
	l := &link{in: bufio.NewReader(in), out: json.NewEncoder(out)}
	text, err := l.in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("eventbench child: %w", err)
	}
	var s spec
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("eventbench child: %w", err)
	}
	run, ok := roles()[s.Role]
	if !ok {
		return fmt.Errorf("eventbench child: no role %q", s.Role)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.listen(cancel)
	if err := run(ctx, s, l); err != nil {
		_ = l.out.Encode(message{Step: "failed", Fault: err.Error()}) // the parent also sees the exit code
		return fmt.Errorf("eventbench child %s: %w", s.Role, err)
	}
	return nil
}
