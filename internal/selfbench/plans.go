package selfbench

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"
)

// What a stream takes at both ends together and in the kernel, in bytes:
// generous, to refuse what would not fit.
const (
	perStream1 = 28 << 10
	perStream2 = 8 << 10
	perSession = 900 << 10
)

// spareFiles is how many files a process needs besides one for each stream.
const spareFiles = 300

// shortest is the shortest phase of firing.
const shortest = 300 * time.Millisecond

// least is the smallest number of streams that is measured.
const least = 20

// scaled is a number of streams at this run's scale, no more than each of some
// processes can have, and all of them together have memory for.
func (r *runner) scaled(n, processes int, bytes uint64) int {
	want := max(least, int(math.Round(float64(n)*r.opts.Scale)))
	got := want
	if limit := r.opts.Files - spareFiles; r.opts.Files > 0 && bytes != perStream2 && got > limit {
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

// reduced says that fewer streams were opened than was wanted.
func (r *runner) reduced(want, got int, why string) {
	text := fmt.Sprintf("%s streams in a process in place of %s: %s.", grouped(int64(got)), grouped(int64(want)), why)
	if !slices.Contains(r.row.Notes, text) {
		r.row.Notes = append(r.row.Notes, text)
	}
}

// lasting is a length of time at this run's scale, and not less than a baseline.
func (r *runner) lasting(d, baseline time.Duration) time.Duration {
	return max(baseline, time.Duration(float64(d)*r.opts.Scale))
}

// perSecond is about how many deliveries a second a paced phase has.
const perSecond = 40_000

// push is a plan of push streams against the neutral target.
func (r *runner) push(name, role, http string, streams int) plan {
	s := spec{
		Role: role, Streams: streams, HTTP: http, Mode: "push", Rate: min(5, max(0.25, perSecond/float64(streams))),
		Idle: r.lasting(3*time.Second, shortest/3), Paced: r.lasting(12*time.Second, shortest), Patience: r.patience(),
		Kernel: role == "eventmeter", // as a run has it
	}
	if http == "h2c" {
		s.Batch = 1 // as servers do that have a writer for each stream
	}
	if runtime.GOOS == "linux" && streams > 10_000 { // elsewhere, only one of the loopback's addresses is there
		s.Local = 8
	}
	return plan{Name: name, Target: "baseline", Client: s}
}

// patience is how long opening may take.
func (r *runner) patience() time.Duration {
	return max(30*time.Second, time.Duration(90*r.opts.Scale)*time.Second)
}

// add adds a line to the row.
func (r *runner) add(l Line) { r.row.Lines = append(r.row.Lines, l) }

// complete is the line that says that nothing was lost, in any run.
func (r *runner) complete(what, goal string, runs ...*figures) {
	l := Line{What: what, Goal: goal, Measured: of(runs, "streams", (*figures).streams), Verdict: met}
	var delivered, expected float64
	for _, f := range runs {
		delivered += f.delivered()
		expected += f.expected()
		if f.lost() {
			l.Verdict = notMet
		}
		for _, t := range f.Targets {
			if t.Skipped > 0 {
				l.Note = fmt.Sprintf("the target skipped %d frames: a client did not keep up; ", t.Skipped)
				l.Verdict = notMet
			}
		}
	}
	l.Note += fmt.Sprintf("%s of %s deliveries came", grouped(int64(delivered)), grouped(int64(expected)))
	r.add(l)
}

// enough says that a run was of the size that a goal is about.
func enough(f *figures, streams int) bool { return int(f.streams()) >= streams }

// sized qualifies the verdicts of lines that were added since, when the run was
// smaller than the goal is about: a goal is met, or missed, at its size.
func (r *runner) sized(from int, f *figures, streams int) {
	if enough(f, streams) {
		return
	}
	for i := range r.row.Lines[from:] {
		l := &r.row.Lines[from+i]
		if l.Verdict != "" {
			l.Verdict += smaller
		}
	}
}

func ptr(v Value) *Value { return &v }

// runner is a run under way.
type runner struct {
	opts   Options
	report *Report
	row    *Row
	done   map[string][]*figures // by plan: some rows look at the same ones
}

// alternate measures plans in turn, a number of times, and returns the figures
// of each.
func (r *runner) alternate(ctx context.Context, repeats int, plans ...plan) ([][]*figures, error) {
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

// once measures a plan, unless another row has done so as often already.
func (r *runner) once(ctx context.Context, p plan, round int) (*figures, error) {
	same := p
	same.Name = ""
	text, err := json.Marshal(same)
	if err != nil {
		return nil, err
	}
	key := string(text)
	if have := r.done[key]; round < len(have) {
		return have[round], nil
	}
	fmt.Fprintf(r.opts.Progress, "  %s, %d streams", p.Name, max(p.Pairs, 1)*p.Client.Streams)
	p.Profiles = r.profilesOf(p, round)
	var f *figures
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

// row is a part of the report: measurements, and what is said of them.
type row struct {
	name, title string
	measure     func(ctx context.Context, r *runner) error
}
