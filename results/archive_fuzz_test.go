package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// measured is an account with a delivery, a loss and a duplicate in it.
func measured(t testing.TB) ledger.Account {
	t.Helper()
	l, err := ledger.New(
		ledger.Options{
			Clock:    eventmeter.NewClock(),
			Sources:  1,
			Interval: time.Second,
			Lanes:    []ledger.LaneSpec{{Name: "push", System: "events", Mode: eventmeter.Push, Subscriptions: 1}},
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	l.Changed(eventmeter.Transition{To: eventmeter.Attaching, At: 1})
	l.Changed(eventmeter.Transition{To: eventmeter.Active, At: 2})
	for seq := range uint32(3) {
		at := eventmeter.Instant(1e9 + int64(seq)*1e6)
		stamp := eventmeter.Stamp{Run: l.Run(), Seq: seq + 1}
		l.Fired(eventmeter.Emission{Stamp: stamp, Intended: at, Fired: at, Measured: true})
		l.Resolved(stamp, eventmeter.Accepted, at+1e6)
		if seq == 1 {
			continue // lost
		}
		for range 1 + seq/2 {
			l.Delivered(eventmeter.Delivery{Stamp: stamp, Probed: true, EventID: uint64(seq) + 1, At: at + 2e6, Bytes: 100})
		}
	}
	return l.Account()
}

// archiveOf returns a result of that account and its part.
func archiveOf(t testing.TB) (*Result, *Part) {
	t.Helper()
	a := measured(t)
	r := &Result{
		Schema:   Schema,
		Version:  "devel",
		Run:      "00c0ffee",
		Started:  time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC),
		Finished: time.Date(2026, 11, 20, 10, 0, 9, 0, time.UTC),
		Profile:  json.RawMessage(`{"name":"x"}`),
		Lanes:    []Lane{NewLane(&a.Lanes[0])},
		Part:     &PartOf{Index: 0, Count: 2},
		Coverage: 0.5,
	}
	p := &Part{
		Schema: PartSchema, Count: 2, Run: "00c0ffee", Coverage: 0.5,
		Passes: []PartPass{{Account: a, Began: 1e9, BeganAt: r.Started, Figures: []PartFigures{{Values: map[string]float64{"x": 1}}}}},
	}
	if r.Lanes[0].Delivered != 2 || r.Lanes[0].LostSilent != 1 || r.Lanes[0].Duplicates.SameEvent != 1 {
		t.Fatalf("the sample has %+v", r.Lanes[0])
	}
	return r, p
}

// addChanges adds values for some places of a file.
func addChanges(f *testing.F) {
	f.Add(uint16(0), []byte(`{}`))
	f.Add(uint16(0), []byte(`{"schema":"eventmeter.result/1"`))
	for i, value := range []string{`-1`, `9223372036854775807`, `1e308`, `0.5`, `null`, `"../../evil"`, `[]`, `{}`,
		`"0001-01-01T00:00:00Z"`, `[null]`, `"HISTFAAAAEV42pNpmSzMwMDAxAABzFCaEUoz2X+AMIKZAEARAtM="`} {
		for place := i; place < 300; place += 29 {
			f.Add(uint16(place+1), []byte(value))
		}
	}
}

// changedAt is a file with another value at one place, counted from 1 in the order of its text with
// sorted keys; place 0 is the file itself. Text that is not JSON replaces the whole file.
func changedAt(text []byte, place uint16, value []byte) []byte {
	if place == 0 || !json.Valid(value) {
		return value
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var doc any
	if dec.Decode(&doc) != nil {
		panic("the sample is no JSON")
	}
	left := int(place)
	out, err := json.Marshal(replacedAt(doc, &left, value))
	if err != nil {
		panic(err)
	}
	return out
}

func replacedAt(v any, left *int, value json.RawMessage) any {
	if *left--; *left == 0 {
		return value
	}
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			v[key] = replacedAt(v[key], left, value)
		}
	case []any:
		for i := range v {
			v[i] = replacedAt(v[i], left, value)
		}
	}
	return v
}

// FuzzReadResult: what is accepted as result.json is written and read again
// without a change, has lanes that files may be named by, and no number that
// cannot be counted; what is not has an error of one line.
func FuzzReadResult(f *testing.F) {
	r, _ := archiveOf(f)
	var text bytes.Buffer
	if err := r.Write(&text); err != nil {
		f.Fatal(err)
	}
	addChanges(f)
	f.Fuzz(func(t *testing.T, place uint16, value []byte) {
		data := changedAt(text.Bytes(), place, value)
		r, err := Read(bytes.NewReader(data))
		if err != nil {
			refusedOnOneLine(t, err)
			return
		}
		for i := range r.Lanes {
			l := &r.Lanes[i]
			if name := l.Name + ".hlog"; !profiles.ValidName(l.Name) || filepath.Base(name) != name || !filepath.IsLocal(name) {
				t.Errorf("a lane is named %q", l.Name)
			}
			for _, n := range []int64{l.Expected, l.Delivered, l.LostSilent, l.LostAnnounced, l.Late, l.OutOfOrder,
				int64(l.Subscriptions), l.Latency.FromSent.Count} {
				if n < 0 || n > 1<<53 {
					t.Errorf("lane %s counts %d", l.Name, n)
				}
			}
		}
		if !(r.Coverage >= 0 && r.Coverage <= 1) || math.IsInf(r.Generator.DroppedEvents, 0) {
			t.Errorf("a coverage of %v, %v of the events dropped", r.Coverage, r.Generator.DroppedEvents)
		}
		var once, twice bytes.Buffer
		if err := r.Write(&once); err != nil {
			return // a time that JSON cannot hold
		}
		again, err := Read(bytes.NewReader(once.Bytes()))
		if err != nil {
			t.Fatalf("%v\nin\n%s", err, &once)
		}
		if err := again.Write(&twice); err != nil || !bytes.Equal(once.Bytes(), twice.Bytes()) {
			t.Errorf("%v: written once\n%s\nand again\n%s", err, &once, &twice)
		}
	})
}

// FuzzReadPart: what is accepted as shard.json is written and read again without
// a change, and can be added to itself: every count is then twice what it was.
func FuzzReadPart(f *testing.F) {
	_, p := archiveOf(f)
	text, err := json.Marshal(p)
	if err != nil {
		f.Fatal(err)
	}
	addChanges(f)
	f.Fuzz(func(t *testing.T, place uint16, value []byte) {
		data := changedAt(text, place, value)
		p, err := readPart(data)
		if err != nil {
			refusedOnOneLine(t, err)
			return
		}
		once, err := json.Marshal(p)
		if err != nil {
			return // a time that JSON cannot hold
		}
		again, err := readPart(once)
		if err != nil {
			t.Fatalf("%v\nin\n%s", err, once)
		}
		if twice, err := json.Marshal(again); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%v: written once\n%s\nand again\n%s", err, once, twice)
		}
		for k := range p.Passes {
			a := p.Passes[k].Account
			sum, err := ledger.MergeAccounts([]ledger.Account{a, again.Passes[k].Account}, ledger.MergeOptions{Shift: []int64{0, 3}})
			if err != nil {
				t.Fatal(err)
			}
			for i := range a.Lanes {
				was, now := NewLane(&a.Lanes[i]), NewLane(&sum.Lanes[i])
				if now.Expected != 2*was.Expected || now.Delivered != 2*was.Delivered || now.Unexpected != 2*was.Unexpected ||
					now.Latency.FromSent.Count != 2*was.Latency.FromSent.Count ||
					now.Latency.FromSent.P99 != was.Latency.FromSent.P99 ||
					now.Detail.Malformed != 2*was.Detail.Malformed {
					t.Errorf("added to itself\n%+v\nis\n%+v", was, now)
				}
				for j, s := range sum.Lanes[i].Series {
					if s.Number < 0 || j > 0 && s.Number <= sum.Lanes[i].Series[j-1].Number {
						t.Errorf("interval %d has the number %d", j, s.Number)
					}
				}
			}
			_ = sum.Check() // says what does not balance, and does not panic
		}
	})
}

// FuzzReadTimelines: what is accepted as timeline.csv is written and read again
// without a change, and every lane's intervals are in order.
func FuzzReadTimelines(f *testing.F) {
	head := strings.Join(timelineHead, ",") + "\n"
	for _, text := range []string{
		"", head, head + "push,0,1000,1,0,0,1,0,0,0,0,0\npush,1000,1000,1,0,0,1,0,0,0,0,0\npoll,0,1000,1,0,0,1,0,0,0,0,0\n",
		head + "push,0,0,1,0,0,1,0,0,0,0,0\n",
		head + "push,0,1000,-1,0,0,1,0,0,0,0,0\n", head + "push,0,1000,9223372036854775807,0,0,1,0,0,0,0,0\n",
		head + "push,9223372036854775807,1000,0,0,0,1,0,0,0,0,0\n",
		head + "\"pu\nsh\",0,1000,1,0,0,1,0,0,0,0,0\n", head + "../../evil,0,1000,1,0,0,1,0,0,0,0,0\n",
		head + "push,0,1000\n", head + "\"push,0\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := ReadTimelines(bytes.NewReader(data))
		if err != nil {
			if !errors.Is(err, ErrTimeline) || all != nil || strings.Contains(err.Error(), "\n") || len(err.Error()) > 500 {
				t.Errorf("%d timelines and %v", len(all), err)
			}
			return
		}
		var names []string
		for name, line := range all {
			names = append(names, name)
			if line.Interval <= 0 {
				t.Errorf("lane %q has intervals of %v", name, line.Interval)
			}
			var sum Point
			for i, p := range line.Points {
				if p.At < 0 || i > 0 && p.At <= line.Points[i-1].At {
					t.Errorf("lane %s: interval %d begins at %v", name, i, p.At)
				}
				sum.Add(p)
			}
			for _, n := range sum.counts() {
				if *n < 0 {
					t.Errorf("lane %s: a count adds up to %d", name, *n)
				}
			}
		}
		slices.Sort(names)
		var text bytes.Buffer
		if err := WriteTimelines(&text, names, all); err != nil {
			t.Fatal(err)
		}
		again, err := ReadTimelines(&text)
		if err != nil || !reflect.DeepEqual(again, all) {
			t.Errorf("%v was written and read again as %v, %v", all, again, err)
		}
	})
}

// refusedOnOneLine checks that an error about a file is short and on one line.
func refusedOnOneLine(t *testing.T, err error) {
	t.Helper()
	if text := err.Error(); strings.Contains(text, "\n") || len(text) > 1000 {
		t.Errorf("an error of %d bytes: %.300q", len(text), text)
	}
}

// A small log that would expand to gigabytes is refused early.
func TestLogThatUnfolds(t *testing.T) {
	h := hdrhistogram.NewPacked(1, 1e9, 3)
	for v := int64(1); v < 1e9; v += max(1, v/4096) {
		if err := h.RecordValue(v); err != nil {
			t.Fatal(err)
		}
	}
	text, err := h.Encode()
	if err != nil {
		t.Fatal(err)
	}
	line := "Tag=sent,0,1,1," + string(text) + "\n"
	one, err := ReadLog(strings.NewReader(line))
	if err != nil || len(one.Intervals[0].Buckets) < 10_000 {
		t.Fatalf("one line: %v", err)
	}
	defer func(n int) { maxBuckets = n }(maxBuckets)
	maxBuckets = 10 * len(one.Intervals[0].Buckets)
	if _, err := ReadLog(strings.NewReader(strings.Repeat(line, 10))); err != nil {
		t.Errorf("as many buckets as may be: %v", err)
	}
	if _, err := ReadLog(
		strings.NewReader(strings.Repeat(line, 11)),
	); !errors.Is(err, ErrLog) ||
		!strings.Contains(err.Error(), "line 11: the histograms up to here have more than") {
		t.Errorf("more: %v", err)
	}
}

// An archive with a lane name that no profile can have is refused.
func TestLaneNamesOfArchives(t *testing.T) {
	for _, name := range []string{"", ".", "..", "../evil", "a/b", `a\b`, "/a", "A", "a b", "a\n", "a\x00",
		"-a", strings.Repeat("a", 64), "é"} {
		r, p := archiveOf(t)
		r.Lanes[0].Name = name
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), "lanes[0].name: ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q in a result: %v", name, err)
		}
		p.Passes[0].Account.Lanes[0].Name = name
		if err := p.check(); err == nil || !strings.Contains(err.Error(), "passes[0].account.Lanes[0].Name: ") {
			t.Errorf("%q in a part: %v", name, err)
		}
	}
}

// A part that contradicts the result beside it is refused.
func TestPartAndResultAgree(t *testing.T) {
	r, p := archiveOf(t)
	if err := errors.Join(r.Check(), p.check(), CheckPart("d", r, p)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change func(*Result, *Part)
		want   string
	}{
		{func(r *Result, _ *Part) { r.Part = nil }, "is of another"},
		{func(_ *Result, p *Part) { p.Index = 1 }, "shard.json is of shard 1 of 2, and result.json is of another"},
		{func(_ *Result, p *Part) { p.Passes = nil },
			"passes: shard.json has none, and result.json is of a run that was not partial"},
		{func(_ *Result, p *Part) { p.Passes = append(p.Passes, p.Passes[0]) },
			"passes: shard.json has 2, and result.json has 1 lanes"},
		{func(r *Result, _ *Part) { r.Lanes = append(r.Lanes, r.Lanes[0]) }, "lanes: shard.json has 1, and result.json has 2"},
		{func(r *Result, _ *Part) { r.Lanes[0].Mode = "poll" },
			`lanes[0]: it is "push" ("events", "push") in shard.json, and "push" ("events", "poll") in result.json`},
		{func(r *Result, _ *Part) { r.Lanes[0].Delivered++ }, "lane push: delivered is 2 in shard.json and 3 in result.json"},
		{func(r *Result, _ *Part) { r.Lanes[0].LostSilent-- },
			"bad result file: d: lane push: lostSilent is 1 in shard.json and 0 in result.json; one of the two was changed"},
		{func(r *Result, _ *Part) { r.Lanes[0].Duplicates.SameEvent = 0 }, "lane push: duplicates.sameEvent is "},
		{func(r *Result, _ *Part) { r.Lanes[0].LostOrderUnknown += 3 }, "lane push: lostOrderUnknown is "},
		{func(r *Result, _ *Part) { r.Lanes[0].OrderConflicts += 3 }, "lane push: orderConflicts is "},
		{func(r *Result, _ *Part) { r.Lanes[0].Gaps.FalseAlarms += 3 }, "lane push: gaps.falseAlarms is "},
		{func(r *Result, _ *Part) { r.Lanes[0].Latency.FromSent.Count = 0 }, "lane push: latency.fromSent.count"},
	} {
		r, p := archiveOf(t)
		c.change(r, p)
		if err := CheckPart("d", r, p); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// TestPartErrors: a part that no merge can use is refused, with the field and its value.
func TestPartErrors(t *testing.T) {
	for want, change := range map[string]func(*Part){
		`its schema is "x"`:                                                func(p *Part) { p.Schema = "x" },
		"index: there is no shard 2 of 2":                                  func(p *Part) { p.Index = 2 },
		"index: there is no shard 0 of 1":                                  func(p *Part) { p.Count = 1 },
		"passes[0].account.Interval: 999999 ns is no width of an interval": func(p *Part) { p.Passes[0].Account.Interval = time.Millisecond - 1 },
		"passes[0].began: -1 ns is before the run":                         func(p *Part) { p.Passes[0].Began = -1 },
		"passes[0].beganAt: 1 is no year of a run":                         func(p *Part) { p.Passes[0].BeganAt = time.Time{} },
		"passes[0].figures: it has figures of 0 lanes, and the account has 1 lanes": func(p *Part) {
			p.Passes[0].Figures = nil
		},
		"passes[0].account.Lanes[1].Name: push appears twice": func(p *Part) {
			pass := &p.Passes[0]
			pass.Account.Lanes = append(pass.Account.Lanes, pass.Account.Lanes[0])
			pass.Figures = append(pass.Figures, pass.Figures[0])
		},
		"passes[0].account.Lanes[0].Series[1].Number: 7 is out of order": func(p *Part) {
			p.Passes[0].Account.Lanes[0].Series = []ledger.LaneInterval{{Number: 7}, {Number: 7}}
		},
	} {
		_, p := archiveOf(t)
		change(p)
		if err := p.check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestPartsAtTheirBounds: the smallest and the largest values that a merge can use are accepted.
func TestPartsAtTheirBounds(t *testing.T) {
	for _, change := range []func(*PartPass){
		func(p *PartPass) {
			p.Began, p.Account.Interval, p.BeganAt = 0, time.Millisecond, time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
		},
		func(p *PartPass) {
			p.Account.Interval, p.BeganAt = 24*time.Hour, time.Date(2200, 12, 31, 0, 0, 0, 0, time.UTC)
		},
		func(p *PartPass) {
			p.Account.Lanes[0].Series = []ledger.LaneInterval{{}, {Number: maxTime * int64(time.Second) / int64(p.Account.Interval)}}
		},
	} {
		_, p := archiveOf(t)
		change(&p.Passes[0])
		if err := p.check(); err != nil {
			t.Error(err)
		}
	}
}

// Devices and directories are refused as files of an archive.
func TestOnlyRegularFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(os.DevNull, filepath.Join(dir, File)); err != nil {
		t.Skip(err)
	}
	if _, err := Load(dir); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "result.json is no regular file") {
		t.Error(err)
	}
}
