package stats

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/eventmeter/eventmeter/results"
)

// validity returns reasons to doubt that the sides differ only as intended. The runs
// of a duet are intended to have two targets, and share what the machine did.
func validity(a, b *Side, duet bool) []results.Warning {
	ws := []results.Warning{}
	add := func(code, format string, args ...any) {
		w := results.Warning{Code: code, Text: fmt.Sprintf(format, args...)}
		if !slices.Contains(ws, w) {
			ws = append(ws, w)
		}
	}
	first := a.Runs[0].Result
	for i, s := range []*Side{a, b} {
		side := "AB"[i : i+1]
		for k := range s.Runs {
			r := s.Runs[k].Result
			if keys := profileDiff(first.Profile, r.Profile, duet); len(keys) > 0 {
				add("profiles-differ", "the profiles of A and %s differ in %s", side, someKeys(keys))
			}
			if d := hostDiff(first.Host, r.Host); d != "" {
				add("hosts-differ", "the hosts of A and %s differ: %s", side, d)
			}
			if first.Version != r.Version {
				add("versions-differ", "A was run with eventmeter %s and a run of %s with %s", first.Version, side, r.Version)
			}
			if x, y := first.Target, r.Target; x.Era != y.Era || x.Protocol != y.Protocol {
				add("targets-differ", "A negotiated %s %s and a run of %s negotiated %s %s", x.Era, x.Protocol, side, y.Era, y.Protocol)
			}
			if r.Partial {
				add("partial", "run %s of %s ended early: %s", r.Run, side, r.Reason)
			}
			if r.Generator.Bottleneck {
				add(
					"bottleneck",
					"in run %s of %s the generator was the bottleneck: %s",
					r.Run,
					side,
					strings.Join(r.Generator.Reasons, "; "),
				)
			}
			if doubts := r.Doubts(); len(doubts) > 0 && !r.Generator.Bottleneck && !duet {
				add(results.MachineBusy, "in run %s of %s %s", r.Run, side, strings.Join(doubts, "; "))
			}
			for _, l := range r.Lanes {
				if text := logDiff(&l, s.Runs[k].Logs[l.Name]); text != "" {
					ws = append(
						ws,
						results.Warning{Code: "archive", Lane: l.Name, Text: fmt.Sprintf("run %s of %s: %s", r.Run, side, text)},
					)
				}
			}
		}
	}
	for i := range a.Runs {
		for k := range b.Runs {
			if x, y := a.Runs[i].Result, b.Runs[k].Result; x.Run == y.Run && x.Started.Equal(y.Started) {
				add("same-run", "run %s is on both sides", x.Run)
			}
		}
	}
	if len(a.Runs) == 1 && len(b.Runs) == 1 && !duet {
		add("one-run", "one run each: the noise estimate does not include differences between runs; use %d or more runs per side", manyRuns)
	}
	return ws
}

// logDiff returns how a lane's log contradicts its figures, or "".
func logDiff(l *results.Lane, log *results.Log) string {
	if log == nil {
		return "there is no histogram log"
	}
	for _, tag := range []string{results.TagIntended, results.TagSent} {
		q := summaryOf(l, tag)
		var n int64
		all := mergeBuckets(log.Of(tag))
		for _, b := range all {
			n += b.Count
		}
		if n != q.Count {
			return fmt.Sprintf("the log has %d samples tagged %s and the result %d", n, tag, q.Count)
		}
		if n == 0 {
			continue
		}
		got := float64(valueAt(all, 0.5))
		if want := float64(q.P50); math.Abs(got-want) > 0.01*want+1000 {
			return fmt.Sprintf(
				"the median of the log is %s and of the result %s",
				results.Nanos(got),
				q.P50,
			)
		}
	}
	return ""
}

func hostDiff(a, b results.Host) string {
	var out []string
	for _, d := range []struct{ what, a, b string }{
		{"system", a.OS + "/" + a.Arch, b.OS + "/" + b.Arch},
		{"kernel", a.Kernel, b.Kernel},
		{"CPU", a.CPU, b.CPU},
		{"CPUs", strconv.Itoa(a.CPUs), strconv.Itoa(b.CPUs)},
		{"memory", strconv.FormatInt(a.Memory, 10), strconv.FormatInt(b.Memory, 10)},
		{"Go", a.Go, b.Go},
	} {
		if d.a != d.b {
			out = append(out, fmt.Sprintf("%s %s and %s", d.what, d.a, d.b))
		}
	}
	return strings.Join(out, ", ")
}

// someKeys names the first few.
func someKeys(keys []string) string {
	const most = 8
	if len(keys) > most {
		return fmt.Sprintf("%s and %d more keys", strings.Join(keys[:most], ", "), len(keys)-most)
	}
	return strings.Join(keys, ", ")
}

// commitKey is the key of a profile by which runs are expected to differ.
const commitKey = "target.commit"

// addressKeys begin the keys that say where the targets of a duet are.
var addressKeys = []string{"target.", "upstream."}

// profileDiff returns the keys, as paths, whose values differ, in a duet without
// those of the target and the upstream.
func profileDiff(a, b json.RawMessage, duet bool) []string {
	if bytes.Equal(a, b) {
		return nil
	}
	x, y := map[string]string{}, map[string]string{}
	flatten(a, x)
	flatten(b, y)
	var keys []string
	for k, v := range x {
		if y[k] != v {
			keys = append(keys, k)
		}
	}
	for k := range y {
		if _, ok := x[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return slices.DeleteFunc(slices.Compact(keys), func(k string) bool {
		return k == commitKey || duet && slices.ContainsFunc(addressKeys, func(of string) bool { return strings.HasPrefix(k, of) })
	})
}

// commitOf is the commit that a profile names.
func commitOf(profile json.RawMessage) string {
	var p struct {
		Target struct{ Commit string }
	}
	_ = json.Unmarshal(profile, &p) // a profile without one names none
	return p.Target.Commit
}

func flatten(data json.RawMessage, into map[string]string) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		into["(all)"] = string(data)
		return
	}
	flattenValue("", v, into)
}

func flattenValue(path string, v any, into map[string]string) {
	join := func(key string) string {
		if path == "" {
			return key
		}
		return path + "." + key
	}
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			flattenValue(join(k), e, into)
		}
	case []any:
		for i, e := range v {
			key := strconv.Itoa(i)
			if m, ok := e.(map[string]any); ok {
				// Lanes are identified by their names, as in overrides.
				if name, ok := m["name"].(string); ok {
					key = name
				}
			}
			flattenValue(join(key), e, into)
		}
	default:
		into[path] = fmt.Sprintf("%T %v", v, v)
	}
}
