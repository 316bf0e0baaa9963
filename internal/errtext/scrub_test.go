package errtext

import "testing"

// What holds no secret is not written to, so that others may read it meanwhile. The
// race detector finds a write.
func TestScrubLeavesWhatIsClean(t *testing.T) {
	v := struct {
		Text  string
		Texts []string
		Map   map[string]string
	}{"clean", []string{"clean"}, map[string]string{"a": "clean"}}
	secrets := NewSecrets("hunter22")
	done := make(chan int)
	go func() { done <- len(v.Text) + len(v.Texts[0]) + len(v.Map["a"]) }()
	secrets.ScrubAll(&v)
	if n := <-done; n != 15 {
		t.Errorf("%d characters", n)
	}
	v.Texts[0], v.Map["a"] = "with hunter22", "with hunter22"
	if secrets.ScrubAll(&v); v.Texts[0] == "with hunter22" || v.Map["a"] == "with hunter22" {
		t.Errorf("a secret stays: %+v", v)
	}
}
