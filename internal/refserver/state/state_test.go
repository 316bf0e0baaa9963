package state

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestWhatWasFlushedIsThere(t *testing.T) {
	name := filepath.Join(t.TempDir(), "state.json")
	f, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	until := time.Date(2026, 11, 23, 1, 2, 3, 0, time.UTC)
	f.SetSubscription(
		"sub_1",
		Subscription{
			Principal: "p",
			Name:      "tick",
			Arguments: []byte(`{}`),
			URL:       "https://h/1",
			Secrets:   []Secret{{Text: "b"}, {Text: "a", Until: until}},
		},
	)
	f.SetSubscription("sub_2", Subscription{Principal: "q"})
	f.SetRequest("t1", Request{ID: []byte(`7`), MaxWait: time.Second})
	f.DropSubscription("sub_2")
	if err := f.Flush(); err != nil {
		t.Fatal(err)
	}
	// What a killed process leaves behind is what was flushed.
	left, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	f.SetSubscription("sub_3", Subscription{})
	copied := filepath.Join(t.TempDir(), "state.json")
	if err := os.WriteFile(copied, left, 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := Open(copied)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	d := g.Read()
	s := d.Subscriptions["sub_1"]
	if len(d.Subscriptions) != 1 || s.URL != "https://h/1" || len(s.Secrets) != 2 || !s.Secrets[1].Until.Equal(until) ||
		!s.Secrets[0].Until.IsZero() ||
		!s.Expires.IsZero() {
		t.Errorf("subscriptions %+v", d.Subscriptions)
	}
	if d.Starts != 2 || string(d.Requests["t1"].ID) != "7" || d.Requests["t1"].MaxWait != time.Second {
		t.Errorf("document %+v", d)
	}
	// The other one is closed, and holds what came last.
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if f, err = Open(name); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, there := f.Read().Subscriptions["sub_3"]; !there {
		t.Error("Close did not write")
	}
}

func TestFilesAreTheOwnersAlone(t *testing.T) {
	name := filepath.Join(t.TempDir(), "state.json")
	if err := os.WriteFile(name, []byte(`{"schema":"eventmeter.state/1"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestFilesThatAreNotOurs(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"{\"schema\":\"eventmeter.state/1\",":  "is damaged",
		"":                                     "is damaged",
		"{\"schema\":\"eventmeter.result/1\"}": `schema is "eventmeter.result/1"`,
		"{\"schema\":\"eventmeter.state/1\",\"more\":1}":           "unknown field",
		"{\"schema\":\"eventmeter.state/1\"}{}":                    "something follows",
		"{\"schema\":\"eventmeter.state/1\",\"subscriptions\":[]}": "is damaged",
	} {
		name := filepath.Join(dir, "f")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(name)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if after, _ := os.ReadFile(name); string(after) != text {
			t.Errorf("%q was changed to %q", text, after)
		}
	}
	if _, err := Open(dir); err == nil {
		t.Error("a folder was opened")
	}
	if _, err := Open(filepath.Join(dir, "none", "f")); err == nil {
		t.Error("a file in no folder was opened")
	}
}

func TestOneServerToAFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	f, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := Open(name); err == nil || !strings.Contains(err.Error(), "locked by process") {
		t.Errorf("a second one: %v", err)
	}
}

// Flushes that wait for each other lose nothing.
func TestFlushesAtOnce(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	f, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for i := range 50 {
		wait.Go(func() {
			id := string(rune('A' + i))
			f.SetSubscription(id, Subscription{Name: id})
			if err := f.Flush(); err != nil {
				t.Error(err)
			}
			text, err := os.ReadFile(name)
			var d Document
			if err != nil || decode(text, &d) != nil || d.Subscriptions[id].Name != id {
				t.Errorf("%s is not in the file: %v", id, err)
			}
		})
	}
	wait.Wait()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestNoFileKeepsNothing(t *testing.T) {
	var f *File
	f.SetSubscription("a", Subscription{})
	f.DropRequest("b")
	if err := f.Flush(); err != nil {
		t.Error(err)
	}
	if len(f.Read().Subscriptions) != 0 || f.Close() != nil {
		t.Error("something was kept")
	}
}
