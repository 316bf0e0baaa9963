package run

import (
	"slices"
	"testing"

	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
)

// TestSpokenRevision: a lane that measures long polls needs a target that has
// them.
func TestSpokenRevision(t *testing.T) {
	for _, c := range []struct {
		profile string
		set     []string
		want    string
	}{
		{"longpoll", nil, "longpoll"},
		{"longpoll", []string{"lanes.longpoll.poll.timeout=0"}, ""},
		{"longpoll", []string{"target.embedded.revision=sketch"}, "sketch"},
	} {
		p, err := profiles.Load(c.profile, c.set, systems.Table)
		if err != nil {
			t.Fatal(err)
		}
		args, err := TargetArgs(p, t.TempDir(), nil)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if i := slices.Index(args, "--revision"); i >= 0 {
			got = args[i+1]
		}
		if got != c.want {
			t.Errorf("%s %v: the target speaks %q, want %q", c.profile, c.set, got, c.want)
		}
	}
}
