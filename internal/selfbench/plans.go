package selfbench

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Bytes that a stream needs in the client, the target and the kernel together:
// upper estimates, to refuse what would not fit into memory.
const (
	perStream1 = 28 << 10
	perStream2 = 8 << 10
	perMillion = 4 << 10 // of a stream over HTTP/2 among very many
	perSession = 900 << 10
)

// spareFiles is how many files a process needs besides those of its streams.
const spareFiles = 300

// shortest is the shortest paced phase.
const shortest = 300 * time.Millisecond

// least is the smallest number of streams.
const least = 20

// scaled is a number of streams per process at this run's scale, limited by the
// open files of a process and by the memory for all processes.
func (r *runner) scaled(n, processes int, bytes uint64) int {
	want := max(least, int(math.Round(float64(n)*r.opts.Scale)))
	got := want
	if limit := r.opts.Files - spareFiles; r.opts.Files > 0 && bytes > perStream2 && got > limit {
		got = max(limit, least)
		r.reduced(want, got, fmt.Sprintf("a process may have %s open files", grouped(int64(r.opts.Files))))
	}
	if free := r.report.Machine.Free; free > 0 {
		if limit := int(free / 4 * 3 / bytes / uint64(processes)); got > limit {
			r.reduced(got, limit, fmt.Sprintf("%s MiB of memory are free", grouped(int64(free>>20))))
			got = max(limit, least)
		}
	}
	return got
}

// reduced notes that fewer streams are opened than requested.
func (r *runner) reduced(want, got int, why string) {
	text := fmt.Sprintf("%s streams in a process instead of %s: %s.", grouped(int64(got)), grouped(int64(want)), why)
	if !slices.Contains(r.row.Notes, text) {
		r.row.Notes = append(r.row.Notes, text)
	}
}

// lasting is a duration at this run's scale, at least a minimum.
func (r *runner) lasting(d, minimum time.Duration) time.Duration {
	return max(minimum, time.Duration(float64(d)*r.opts.Scale))
}

// perSecond is the approximate rate of deliveries in a paced phase.
const perSecond = 40_000

// push is a plan of push streams from the baseline server.
func (r *runner) push(name, role, http string, streams int) plan {
	s := spec{
		Role: role, Streams: streams, HTTP: http, Mode: "push", Rate: min(5, max(0.25, perSecond/float64(streams))),
		Idle: r.lasting(3*time.Second, shortest/3), Paced: r.lasting(12*time.Second, shortest), Timeout: r.timeout(),
		Kernel: role == "eventmeter", // as a run has it
	}
	if http == "h2c" {
		s.Batch = 1 // as a server with a writer for each stream does
	}
	if runtime.GOOS == "linux" && streams > 10_000 { // other systems have only one loopback address
		s.Local = 8
	}
	return plan{Name: name, Target: "baseline", Client: s}
}

// timeout bounds the opening of all streams.
func (r *runner) timeout() time.Duration {
	return max(30*time.Second, time.Duration(90*r.opts.Scale)*time.Second)
}

// add adds a line to the row.
func (r *runner) add(l Line) { r.row.Lines = append(r.row.Lines, l) }

// complete adds the line that says whether nothing was lost in any run.
func (r *runner) complete(what, goal string, runs ...*figures) {
	l := line(what, "streams", runs, (*figures).streams).goal(goal, true)
	var delivered, expected float64
	for _, f := range runs {
		delivered += f.delivered()
		expected += f.expected()
		if f.lost() {
			l.Verdict = notMet
		}
		for _, t := range f.Targets {
			if t.Skipped > 0 {
				l.Note = fmt.Sprintf("the target skipped %d frames because a client did not keep up; ", t.Skipped)
				l.Verdict = notMet
			}
		}
	}
	l.Note += fmt.Sprintf("%s of %s deliveries arrived", grouped(int64(delivered)), grouped(int64(expected)))
	r.add(l)
}

// sized qualifies the verdicts of the lines from an index on if the run had fewer
// streams than the goal names.
func (r *runner) sized(from int, f *figures, streams int) {
	if int(f.streams()) >= streams {
		return
	}
	for i := range r.row.Lines[from:] {
		l := &r.row.Lines[from+i]
		if l.Verdict != "" {
			l.Verdict += smaller
		}
	}
}

// runner is the state of a run.
type runner struct {
	opts   Options
	report *Report
	row    *Row
	done   map[plan][]*figures // some rows need the same plans
}

// measure measures plans in turn, a number of times, and returns the figures
// of each plan.
func (r *runner) measure(ctx context.Context, repeats int, plans ...plan) ([][]*figures, error) {
	out := make([][]*figures, len(plans))
	for round := range repeats {
		for i, p := range plans {
			f, err := r.once(ctx, p, round)
			if err != nil {
				return nil, err
			}
			out[i] = append(out[i], f)
		}
	}
	return out, nil
}

// once measures a plan unless an earlier row has already measured this round of it.
func (r *runner) once(ctx context.Context, p plan, round int) (*figures, error) {
	key := p
	key.Name = ""
	if have := r.done[key]; round < len(have) {
		return have[round], nil
	}
	fmt.Fprintf(r.opts.Progress, "  %s, %d streams", p.Name, max(p.Pairs, 1)*p.Client.Streams)
	p.Profiles = r.profilesOf(p, round)
	var f *figures
	var err error
	if p.Client.Role == "micro" {
		f, err = measureMicro(ctx, r.opts.Self, p.Client)
	} else {
		f, err = measurePlan(ctx, r.opts.Self, p)
	}
	if err != nil {
		fmt.Fprintf(r.opts.Progress, ": %v\n", err)
		return nil, err
	}
	fmt.Fprintf(r.opts.Progress, ": %.1f s\n", f.Took.Seconds())
	r.done[key] = append(r.done[key], f)
	r.report.others = append(r.report.others, f.Others)
	return f, nil
}

// profilesOf is the prefix of the names of a measurement's profiles: the row, the
// client, its streams and rate, and the round.
func (r *runner) profilesOf(p plan, round int) string {
	if r.opts.Profiles == "" {
		return ""
	}
	name := fmt.Sprintf("%s-%s-%d-%g-%d", r.row.Name, p.Name, p.Client.Streams, p.Client.Rate, round)
	return filepath.Join(r.opts.Profiles, strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' {
			return c
		}
		return '_'
	}, name))
}

// row is a part of the report and the measurements for it.
type row struct {
	name, title string
	measure     func(ctx context.Context, r *runner) error
}
