package embedded

import (
	"strings"
	"testing"
)

func TestChildThatFails(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"not there":    {[]string{"/nonexistent/eventmeter"}, "start the embedded target"},
		"ends at once": {[]string{"sh", "-c", "echo no port free >&2; exit 3"}, "exit status 3: no port free"},
		"talks":        {[]string{"sh", "-c", "echo hello; cat"}, `printed "hello\n"`},
	} {
		c, err := Start(t.Context(), Options{}, tt.args[0], tt.args[1:]...)
		if err == nil {
			c.Stop()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
