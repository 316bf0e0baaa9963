package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// TestCapacityAndItsArchives: a step says what the archive of its run says, and an error says which of them do not agree.
func TestCapacityAndItsArchives(t *testing.T) {
	dir := t.TempDir()
	if IsCapacity(dir) {
		t.Error("an empty directory holds a capacity")
	}
	a := laneAccount(120, 3, steady)
	a.Expected, a.LostSilent, a.LostRefused = a.Expected+5, 4, 1
	r := &Result{
		Schema: Schema, Run: "1", Started: time.Unix(1, 0), Profile: json.RawMessage(`{}`), Lanes: []Lane{*doubtful(a, Quantiles{})},
		Upstream: Upstream{Scheduled: 146, Published: 146, Accepted: 146},
	}
	archive := filepath.Join(dir, "steps", "1")
	if err := Save(archive, r, []ledger.Account{{Interval: time.Second, Lanes: []ledger.LaneAccount{a}}}); err != nil {
		t.Fatal(err)
	}
	step := CapacityStep{Number: 1, Dir: filepath.Join("steps", "1"), Expected: 9, Delivered: 9, Lost: 9}
	step.Fill(r)
	if step.Expected != 365 || step.Delivered != 360 || step.Lost != 5 || step.FanOut != 2.5 || len(step.Lanes) != 1 ||
		step.Lanes[0].Lost != 5 || step.Lanes[0].FromSent.Count != 360 {
		t.Errorf("%+v", step)
	}
	rebuild := func(change func(c *Capacity)) error {
		t.Helper()
		s := step
		s.Lanes = append([]CapacityStepLane(nil), step.Lanes...)
		c := &Capacity{Schema: CapacitySchema, Profile: r.Profile, Steps: []CapacityStep{s}}
		change(c)
		if err := WriteFile(filepath.Join(dir, CapacityFile), c.Write); err != nil {
			t.Fatal(err)
		}
		_, err := RebuildCapacity(dir)
		return err
	}
	if err := rebuild(func(*Capacity) {}); err != nil || !IsCapacity(dir) {
		t.Error(err)
	}
	for want, change := range map[string]func(c *Capacity){
		"step 1: bad result file: " + archive + " has 5 of 365 deliveries lost, and the capacity says 6 of 365; one": func(c *Capacity) {
			c.Steps[0].Lost, c.Steps[0].Delivered = 6, 359
		},
		" has 5 of 365 deliveries lost, and the capacity says 5 of 366": func(c *Capacity) {
			c.Steps[0].Expected, c.Steps[0].Delivered = 366, 361
		},
		" has 5 of 365 deliveries lost, and the capacity says 5 of 365": func(c *Capacity) { c.Steps[0].Lanes = nil },
		archive + ": lane push is not what the capacity says":           func(c *Capacity) { c.Steps[0].Lanes[0].Lost = 4 },
		`bad result file: step 1: "../x" leads out of the directory`:    func(c *Capacity) { c.Steps[0].Dir = "../x" },
		"bad result file: step 1: load result: ":                        func(c *Capacity) { c.Steps[0].Dir = "steps" },
	} {
		if err := rebuild(change); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := rebuild(func(c *Capacity) { c.Steps[0].Dir = "" }); err != nil {
		t.Errorf("a step without an archive: %v", err)
	}
	c := &Capacity{Steps: []CapacityStep{{Number: 2, Expected: 5, Delivered: 1, Lost: 4}}}
	want := "write capacity: bad result file: step 2 of 1: 5 expected are not 1 delivered + 4 lost"
	if err := c.Write(&bytes.Buffer{}); !errors.Is(err, ErrFormat) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestCheckpoint: a checkpoint is read without the files that it does not have, and its part with it.
func TestCheckpoint(t *testing.T) {
	r, p := archiveOf(t)
	r.Checkpoint = true
	dir := filepath.Join(t.TempDir(), "run")
	if err := SaveCheckpoint(dir, r, p); err != nil {
		t.Fatal(err)
	}
	got, err := Rebuild(dir)
	if err != nil || !got.Checkpoint || got.CheckSeries(dir) != nil {
		t.Fatalf("%+v, %v", got, err)
	}
	part, err := LoadPart(dir)
	if err != nil {
		t.Fatal(err)
	}
	// The part is newer.
	part.Passes[0].Account.Lanes[0].Late, part.Passes[0].Account.Measured.Fired = 1, 77
	if err := CheckPart(dir, got, part); err != nil || got.Lanes[0].Late != 1 || got.Upstream.Published != 77 {
		t.Errorf("%v, %d late, %d published", err, got.Lanes[0].Late, got.Upstream.Published)
	}
	if err := SaveCheckpoint(dir, r, nil); err != nil {
		t.Error(err)
	}
	p.Count = 1
	if err := SaveCheckpoint(dir, r, p); err == nil ||
		err.Error() != "save a checkpoint: save the shard: bad result file: index: there is no shard 0 of 1" {
		t.Error(err)
	}
	if err := SaveCheckpoint(filepath.Join(dir, File), r, nil); err == nil || !strings.HasPrefix(err.Error(), "save a checkpoint: mkdir ") {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "push.hlog")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestMarkResolution: figures below the limit are named, unless nothing was measured.
func TestMarkResolution(t *testing.T) {
	l := Latency{FromSent: Quantiles{Count: 1, P50: 1, P90: 2, P95: 3, P99: 4, P999: 5, Max: 6}}
	for limit, want := range map[Nanos]string{1: "", 2: "fromSent.p50", 5: "fromSent.p50 fromSent.p90 fromSent.p95 fromSent.p99",
		7: "fromSent.p50 fromSent.p90 fromSent.p95 fromSent.p99 fromSent.p999 fromSent.max"} {
		if l.MarkResolution(limit); l.BelowResolution == nil || strings.Join(l.BelowResolution, " ") != want {
			t.Errorf("limit %d: %q, want %s", limit, l.BelowResolution, want)
		}
	}
	for path, want := range map[string]string{
		"latency.fromSent.p999": "published → received, p99.9", "latency.fromIntended.p50": "scheduled → received, p50", "late": "late",
	} {
		if got := FigureName(path); got != want {
			t.Errorf("%s is named %s, want %s", path, got, want)
		}
	}
}
