package run

import (
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
		o, err := TargetOptions(p, t.TempDir(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if o.Revision != c.want {
			t.Errorf("%s %v: the target speaks %q, want %q", c.profile, c.set, o.Revision, c.want)
		}
	}
}
