package report

import (
	"encoding/xml"
	"html"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/results"
)

// forms are the forms of a report that people read, without markup.
func forms(t *testing.T, r *results.Result) map[string]string {
	t.Helper()
	tags := regexp.MustCompile(`<[^>]*>`)
	plain := func(s string) string { return html.UnescapeString(strings.ReplaceAll(s, `\`, "")) }
	page := page1(t, Page{Result: r})
	page = page[strings.Index(page, "<body>"):]
	page, _, _ = strings.Cut(page, "<script")
	return map[string]string{
		"text":     unwrapped(t, r),
		"page":     plain(tags.ReplaceAllString(page, "")),
		"markdown": strings.ReplaceAll(plain(write(t, func(w io.Writer) error { return Markdown(w, r) })), "**", ""),
	}
}

// unwrapped is the text report, its long lines in one piece.
func unwrapped(t *testing.T, r *results.Result) string {
	t.Helper()
	text := write(t, func(w io.Writer) error { return Text(w, r) })
	for line := range strings.Lines(text) {
		if n := len([]rune(line)) - 1; n > width {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	return strings.ReplaceAll(text, "\n           ", " ")
}

// cleanResult is a run of two lanes that received everything owed.
func cleanResult() *results.Result {
	r := &results.Result{
		Upstream: results.Upstream{Kind: "inject", Scheduled: 20, Published: 20, Accepted: 20},
		Thresholds: []results.Verdict{
			{Threshold: "*.lostSilent == 0", Lane: "push", Passed: true, Text: "0"},
			{Threshold: "*.lostSilent == 0", Lane: "poll", Passed: true, Text: "0"},
		},
	}
	for _, name := range []string{"push", "poll"} {
		r.Lanes = append(r.Lanes, results.Lane{
			Name:          name,
			System:        "events",
			Mode:          name,
			Subscriptions: 300,
			Ready:         results.Ready{Active: 300},
			Expected:      6000,
			Delivered:     6000,
			Latency:       results.Latency{FromIntended: results.Quantiles{Count: 6000, P50: 1e6, P99: 30e6}},
			Overhead:      results.Overhead{Measured: results.OverheadWindow{Received: 6000}},
		})
	}
	return r
}

func TestACleanRun(t *testing.T) {
	for form, text := range forms(t, cleanResult()) {
		if !strings.Contains(text, "The threshold held. Nothing was lost, repeated, late or out of order.") || strings.Contains(text, "!") {
			t.Errorf("%s:\n%s", form, text)
		}
	}
}

// TestOrderIsNotPromised: where nothing promises an order, another one is no fault, and is not
// denied either.
func TestOrderIsNotPromised(t *testing.T) {
	for what, unordered := range map[string]func(l *results.Lane){
		"a list":             func(l *results.Lane) { l.Unordered = true },
		"an earlier webhook": func(l *results.Lane) { l.Mode = "webhook" },
	} {
		r := cleanResult()
		unordered(&r.Lanes[0])
		r.Lanes[0].OutOfOrder, r.Lanes[0].OrderConflicts = 600, 600
		for form, text := range forms(t, r) {
			if strings.Contains(text, "!") || strings.Contains(text, "late or out of order") ||
				!strings.Contains(text, "The threshold held. Nothing was lost, repeated or late.") {
				t.Errorf("%s, %s:\n%s", what, form, text)
			}
		}
	}
}

// TestEveryUncleanFigureIsShown: each figure that should be 0 and is not is named beside the
// verdict, marked in the table, and changes the wording, in every form.
func TestEveryUncleanFigureIsShown(t *testing.T) {
	for want, invalidate := range map[string]func(l *results.Lane){
		"duplicates: push 600 of 6 000 (10 %)":            func(l *results.Lane) { l.Duplicates.SameEvent, l.Duplicates.SameEmission = 400, 200 },
		"silent loss: push 3 of 6 000 (0.05 %)":           func(l *results.Lane) { l.LostSilent, l.Delivered = 3, 5997 },
		"announced loss: push 60 of 6 000 (1 %)":          func(l *results.Lane) { l.LostAnnounced, l.Delivered = 60, 5940 },
		"out of order: push 6 of 6 000 (0.1 %)":           func(l *results.Lane) { l.OutOfOrder = 6 },
		"late: push 6 of 6 000 (0.1 %)":                   func(l *results.Lane) { l.Late = 6 },
		"unexpected: push 6":                              func(l *results.Lane) { l.Unexpected = 6 },
		"recovered: push 6":                               func(l *results.Lane) { l.Recovered = 6 },
		"false loss announcements: push 6":                func(l *results.Lane) { l.Gaps.FalseAlarms = 6 },
		"overclaiming cursors: push 6":                    func(l *results.Lane) { l.Gaps.Overclaimed = 6 },
		"latencies out of range: push 6 of 6 000 (0.1 %)": func(l *results.Lane) { l.Latency.FromIntended.OutOfRange = 6 },
		"subscriptions not active: push 3 of 300 (1 %)":   func(l *results.Lane) { l.Ready.Active = 297 },
		"subscriptions ended by the target: push 6":       func(l *results.Lane) { l.Detail.Terminated = 6 },
		"malformed messages: push 6":                      func(l *results.Lane) { l.Detail.Malformed = 6 },
		"deliveries with a bad signature: push 6":         func(l *results.Lane) { l.Detail.Rejected = 6 },
		"events without a probe id: push 6":               func(l *results.Lane) { l.Detail.Unprobed = 6 },
		"broken streams: push 6": func(l *results.Lane) {
			l.Detail.Reconnects, l.Figures = 10,
				map[string]float64{"cuts": 4}
		},
		"dead streams: push 6":                          func(l *results.Lane) { l.Detail.DeadStreams = 6 },
		"failed calls: push 6":                          func(l *results.Lane) { l.Failures = map[string]int64{"a": 2, "b": 4} },
		"owed, nothing received: push 6 000 of 6 000 (": func(l *results.Lane) { l.LostSilent, l.Delivered = 6000, 0 },
	} {
		r := cleanResult()
		invalidate(&r.Lanes[0])
		label, _, _ := strings.Cut(want, ":")
		number := strings.Fields(strings.TrimPrefix(want, label+": push "))[0]
		for form, text := range forms(t, r) {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q:\n%s", form, want, text)
			}
			if !strings.Contains(text, "The run is not clean: 1 figure should be 0 and is not.") ||
				strings.Contains(text, "Nothing was lost") {
				t.Errorf("%s: the verdict does not know of %s", form, label)
			}
			if !strings.Contains(text, "!"+number) {
				t.Errorf("%s: %s is not marked in the table:\n%s", form, label, text)
			}
		}
		if page := page1(
			t,
			Page{Result: r},
		); !strings.Contains(page, `<section class="run unclean"`) ||
			!regexp.MustCompile(`<td class="n unclean( notice)?">!`+number).MatchString(page) {
			t.Errorf("%s is not highlighted on the page", label)
		}
		if junit := write(t, func(w io.Writer) error { return JUnit(w, r) }); !strings.Contains(junit, "not clean: "+label) {
			t.Errorf("JUnit does not say it: %s", label)
		}
		if notes := write(
			t,
			func(w io.Writer) error { return Annotations(w, r, GitHub) },
		); !strings.Contains(
			notes,
			"::warning title=eventmeter%3A not clean::"+label,
		) {
			t.Errorf("the annotations do not say it: %s\n%s", label, notes)
		}
	}
}

// TestNoSentenceCallsDuplicatesNothing: the sentence about a lane has all its unclean figures.
func TestNoSentenceCallsDuplicatesNothing(t *testing.T) {
	r := cleanResult()
	r.Lanes[0].Duplicates.SameEvent, r.Lanes[0].Late = 600, 7
	if got := page1(
		t,
		Page{Result: r},
	); !strings.Contains(got, "half within 1.00ms; nothing was lost; 600 duplicates, 7 late.") ||
		strings.Contains(got, "None of them lost anything") {
		t.Error("the sentence of the lane, or the lead, does not have them")
	}
}

// TestNotEvaluatedIsNoPass: a threshold that judged nothing is nowhere a pass, and the verdict
// counts thresholds, not lanes.
func TestNotEvaluatedIsNoPass(t *testing.T) {
	r := cleanResult()
	r.Thresholds = append(
		r.Thresholds,
		results.Verdict{Threshold: "*.unexpected == 0", Lane: "push", Passed: true, Text: "0"},
		results.Verdict{
			Threshold:    "*.unexpected == 0",
			Lane:         "poll",
			NotEvaluated: "nothing was owed to the lane",
			Text:         "nothing was owed to the lane",
		},
	)
	for form, text := range forms(t, r) {
		if !strings.Contains(text, "1 of 2 thresholds was not evaluated: nothing was owed to the lane (poll).") {
			t.Errorf("%s:\n%s", form, text)
		}
	}
	if text := write(
		t,
		func(w io.Writer) error { return Text(w, r) },
	); !strings.Contains(text, "\nNOT EVALUATED  *.unexpected == 0  (poll: nothing was owed to the lane)\n") ||
		!strings.Contains(text, "\nverdict    NOT EVALUATED: ") {
		t.Errorf("text:\n%s", text)
	}
	if page := page1(
		t,
		Page{Result: r},
	); !strings.Contains(page, `<section class="run not-evaluated"`) ||
		!strings.Contains(page, `<td><b>not evaluated</b></td>`) {
		t.Error("the page shows it like one that held")
	}
	var doc junitSuites
	must(t, xml.Unmarshal([]byte(write(t, func(w io.Writer) error { return JUnit(w, r) })), &doc))
	if c := doc.Suites[0].Cases[5]; doc.Errors != 1 || doc.Failures != 0 || c.Error == nil || c.Error.Type != "not-evaluated" {
		t.Errorf("JUnit: %d errors, %d failures, %+v", doc.Errors, doc.Failures, c)
	}
	for system, want := range map[string]string{
		GitHub:   "::error title=eventmeter%3A threshold *.unexpected == 0::poll: not evaluated: nothing was owed to the lane",
		Azure:    "type=error]eventmeter: threshold *.unexpected == 0: poll: not evaluated",
		GitLab:   "ERROR eventmeter: threshold *.unexpected == 0: poll: not evaluated",
		TeamCity: "testFailed name='eventmeter.poll: *.unexpected == 0' message='not evaluated",
	} {
		if got := write(t, func(w io.Writer) error { return Annotations(w, r, system) }); !strings.Contains(got, want) {
			t.Errorf("%s lacks %q:\n%s", system, want, got)
		}
	}
	r.Thresholds[0].Passed = false
	if got := judge(r); got.word != "fail" || !strings.HasPrefix(got.text, "1 of 2 thresholds failed, and 1 was not evaluated.") {
		t.Errorf("one failed: %+v", got)
	}
}

// TestVerdictWords: the word and the first sentence of the verdict.
func TestVerdictWords(t *testing.T) {
	for want, change := range map[string]func(r *results.Result){
		"pass: The threshold held.": func(*results.Result) {},
		"fail: 1 of 1 threshold failed.": func(r *results.Result) {
			r.Thresholds[0].Passed = false
		},
		"not judged: The run is complete; the profile sets no thresholds.": func(r *results.Result) { r.Thresholds = nil },
		"doubtful: The generator was the bottleneck, so these figures say little about the target; 1 of 1 " +
			"threshold held.": func(r *results.Result) {
			r.Generator.Bottleneck = true
		},
		"partial: The run ended early: x. Events published until then are accounted for; 1 of 1 " +
			"threshold held.": func(r *results.Result) { r.Partial, r.Reason = true, "x" },
		"part: This is shard 1 of 4, and it is complete; thresholds are judged on " +
			"the merged run.": func(r *results.Result) {
			r.Part,
				r.Thresholds = &results.PartOf{Index: 1, Count: 4}, nil
		},
		"not evaluated: 1 of 1 threshold was not evaluated: no lane subscribes to a source.": func(r *results.Result) {
			r.Thresholds = []results.Verdict{{Threshold: "*.late == 0", NotEvaluated: "no lane subscribes to a source"}}
		},
		"not evaluated: 1 of 1 threshold was not evaluated: nothing was owed to the lane (push and poll); no event was " +
			"sent (other).": notEvaluatedThrice,
	} {
		r := cleanResult()
		change(r)
		j := judge(r)
		if got := j.word + ": " + strings.TrimSuffix(j.text, " Nothing was lost, repeated, late or out of order."); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func notEvaluatedThrice(r *results.Result) {
	r.Thresholds = nil
	for lane, why := range map[string]string{"push": "nothing was owed to the lane"} {
		r.Thresholds = append(r.Thresholds, results.Verdict{Threshold: "*.late == 0", Lane: lane, NotEvaluated: why})
	}
	r.Thresholds = append(
		r.Thresholds,
		results.Verdict{Threshold: "*.late == 0", Lane: "poll", NotEvaluated: "nothing was owed to the lane"},
		results.Verdict{Threshold: "*.late == 0", Lane: "other", NotEvaluated: "no event was sent"},
	)
}

// TestWholeCost: the cost of a delivered event includes the event and precedes the overhead, in
// every form.
func TestWholeCost(t *testing.T) {
	r := cleanResult()
	l := &r.Lanes[0]
	l.Overhead.Causes = map[string]results.Traffic{
		"events":    {Requests: 3000, BytesUp: 6000, BytesDown: 1902000},
		"heartbeat": {BytesDown: 60000},
		"subscribe": {Requests: 600, BytesDown: 12000},
	}
	l.Overhead.Measured.Causes = l.Overhead.Causes
	l.Overhead.PerDelivered = results.Share{Bytes: 10}
	l.Overhead.TotalPerDelivered = results.Share{Requests: 0.6, Bytes: 330}
	text := forms(t, r)
	for form, want := range map[string][]string{
		"text": {"wire cost per delivered event\n  requests                                0.600            –\n  bytes    " +
			"                               330 B            –\nprotocol overhead per event\n  requests                          " +
			"          0            0\n  bytes                                    10 B"},
		"page": {"each cost 0.600 requests and 330 B, of which 0 requests and 10 B carried no event.",
			"Total: requests per delivered event", "Total: bytes per delivered event"},
		"markdown": {"| wire cost per event, requests | wire cost per event, bytes | overhead per event, requests | overhead " +
			"per event, bytes |", "| 0.600 | 330 B | 0 | 10 B |"},
	} {
		for _, w := range want {
			if !strings.Contains(text[form], w) {
				t.Errorf("%s lacks %q:\n%s", form, w, text[form])
			}
		}
	}
	got := costs([]column{{Lane: "push"}}, lanesOf(r)[:1])
	for i, want := range map[int]string{2: "0.600", 0: "330 B"} { // the overhead of bytes is between them
		b := got[i].Bars[0]
		if b.Text != want || b.Parts[0].Key != 0 || got[i].Keys[0].Name != "events" ||
			got[i].Keys[len(got[i].Keys)-1].Name != "opening and ending" {
			t.Errorf("chart %d: %+v, want %s beginning with the events", i, got[i], want)
		}
	}
	// 318 of the 330 bytes are the events' own, 10 are heartbeats, 2 of opening.
	if p := got[0].Bars[0].Parts; len(p) != 3 || p[0].W != 963.6 || p[1].W != 30.3 || p[2].W != 6.1 || p[2].Key != len(running) {
		t.Errorf("parts of the bytes: %+v", p)
	}
}

// TestCheckpointVerdict: a killed run never reads like a complete one, and its profile is not said
// to set no thresholds.
func TestCheckpointVerdict(t *testing.T) {
	for _, busy := range []bool{false, true} {
		r := &results.Result{Partial: true, Checkpoint: true, Reason: "killed", Generator: results.Generator{Bottleneck: busy}}
		j := judge(r)
		if j.word == "pass" || !strings.Contains(j.text, "killed") || !strings.Contains(j.text, "not judged in a checkpoint") {
			t.Errorf("busy %v: %s: %s", busy, j.word, j.text)
		}
	}
}

// TestUntilIsReported: every form says how exactly the latencies of phases.until are known.
func TestUntilIsReported(t *testing.T) {
	half := 0.072
	r := &results.Result{Until: []results.Precision{
		{
			Condition: "*.p99 ±5%",
			Lane:      "push",
			Figure:    "fromIntended.p99",
			Value:     12.3e6,
			HalfWidth: &half,
			AtMost:    0.05,
			Measured:  100e9,
			EndedBy:   results.EndedByBound,
		},
		{
			Condition: "*.p99 ±10%",
			Lane:      "poll",
			Figure:    "fromSent.p99",
			Value:     12.3e6,
			HalfWidth: &half,
			AtMost:    0.1,
			Measured:  43e9,
			EndedBy:   results.EndedByCondition,
			Reached:   true,
		},
	}}
	for form, text := range forms(t, r) {
		for _, want := range []string{"push.p99 12.3ms ±7.2 % after 1m40s, the bound: not ±5 %",
			"measured 43.0s: poll.latency.fromSent.p99 12.3ms ±7.2 %"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is missing:\n%s", form, want, text)
			}
		}
	}
}
