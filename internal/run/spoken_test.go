package run

import (
	"testing"

	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
)

// TestSpokenRevision: the embedded target speaks what the clients send, unless
// told otherwise.
func TestSpokenRevision(t *testing.T) {
	for _, c := range []struct {
		profile string
		set     []string
		want    string
	}{
		{"longpoll", nil, "longpoll"},
		{"push", nil, "sep-3415"},
		{"push", []string{"target.embedded.revision=sketch"}, "sketch"},
	} {
		p, err := profiles.Load(c.profile, c.set, systems.Table)
		must(t, err)
		o, err := TargetOptions(p, t.TempDir(), nil)
		must(t, err)
		if o.Revision != c.want {
			t.Errorf("%s %v: the target speaks %q, want %q", c.profile, c.set, o.Revision, c.want)
		}
	}
}
